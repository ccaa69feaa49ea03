import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scopeNames } from '../../src/auth/scopes.ts'
import type { GatewayOptions } from '../../src/gateway.ts'
import { signingKey, startIssuer } from '../auth/issuer.ts'
import { systemClock } from '../../src/clock.ts'
import { directoryOf } from '../e2e/cli.ts'
import type { Scope } from '../e2e/harness.ts'
import { columns, rows, type Column, type Row } from './table.ts'

/** One kind of credentials, with a holder for every cell. */
export interface Holders {
  options: GatewayOptions
  /** What who asks in a cell sends; undefined for nobody. */
  token: (row: Row, column: Column) => string | undefined
  /** Its name for the gateway. */
  principalId: (row: Row, column: Column) => string
}

/** The scopes that the columns stand for. */
function scopesOf ({ scope }: Row, column: Column): string[] {
  const others = scopeNames.filter((name) => name !== scope && name !== 'admin')
  if (column === 'wrong scope' || scope === undefined) return [...others]
  if (column === 'wrong tool') return [`${scope}?tool=b_*`]
  return [column === "another's call" ? `${scope}?own` : scope]
}

const nameOf = (row: Row, column: Column) => `${rows.indexOf(row)}.${columns.indexOf(column)}`
const cells = rows.flatMap((row) => columns.map((column) => ({ row, column }))).filter(({ row, column }) => row.cells[column] !== '—')

export async function keyHolders (t: Scope): Promise<Holders> {
  const tokens = new Map<string, string>()
  const past = new Date(Date.now() - 60_000).toISOString()
  const keys = cells.filter(({ column }) => column !== 'none' && column !== 'unknown').map(({ row, column }, n) => {
    const id = n.toString(16).padStart(12, 'a')
    const token = `tgk_${id}_${randomBytes(32).toString('base64url')}`
    const name = nameOf(row, column)
    tokens.set(name, token)
    return {
      id,
      name,
      hash: `sha256:${createHash('sha256').update(token).digest('hex')}`,
      scopes: scopesOf(row, column),
      createdAt: past,
      ...column === 'expired' ? { expiresAt: past } : {},
      ...column === 'revoked' ? { revokedAt: past } : {}
    }
  })
  const keysFile = join(await directoryOf(t, {}), 'keys.json')
  await writeFile(keysFile, JSON.stringify({ keys }))
  return {
    options: { keysFile },
    token: (row, column) => column === 'none' ? undefined : tokens.get(nameOf(row, column)) ?? `tgk_${'b'.repeat(12)}_${randomBytes(32).toString('base64url')}`,
    principalId: (row, column) => `key:${nameOf(row, column)}`
  }
}

export async function jwtHolders (t: Scope): Promise<Holders> {
  const issuer = await startIssuer(t, systemClock)
  const [stranger, withdrawn] = [await signingKey('first'), await signingKey('withdrawn')]
  const tokens = new Map<string, string>()
  const now = issuer.now()
  for (const { row, column } of cells) {
    const key = column === 'unknown' ? stranger : column === 'revoked' ? withdrawn : issuer.key
    const times = column === 'expired' ? { iat: now - 1200, exp: now - 600 } : {}
    tokens.set(nameOf(row, column), await issuer.sign({ sub: nameOf(row, column), scope: scopesOf(row, column).join(' '), ...times }, { key }))
  }
  return {
    options: issuer.settings,
    token: (row, column) => column === 'none' ? undefined : tokens.get(nameOf(row, column)),
    principalId: (row, column) => `jwt:${nameOf(row, column)}`
  }
}
