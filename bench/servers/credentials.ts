import { createHash, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { GatewayOptions } from '../../src/index.ts'

/** Credentials that a gateway under measurement asks for, and what its load sends. */
export interface BenchCredentials {
  options: GatewayOptions
  token: string | undefined
}

/** @param kind `key`, `keys`, `narrowed` or `jwt`; none where undefined */
export async function credentialsOf (kind: string | undefined, folder: string): Promise<BenchCredentials> {
  switch (kind) {
    case 'key': {
      const token = randomBytes(24).toString('hex')
      return { options: { apiKey: token }, token }
    }
    case 'keys': return ofFile(folder, ['tools:invoke'])
    case 'narrowed': return ofFile(folder, ['tools:invoke?tool=get_*', 'tools:invoke?tool=add*&kind=read', 'events:read?own'])
    case 'jwt': return await ofIssuer()
    default: return { options: {}, token: undefined }
  }
}

function ofFile (folder: string, scopes: string[]): BenchCredentials {
  const id = 'a'.repeat(12)
  const token = `tgk_${id}_${randomBytes(32).toString('base64url')}`
  const keysFile = join(folder, 'keys.json')
  const hash = `sha256:${createHash('sha256').update(token).digest('hex')}`
  writeFileSync(keysFile, JSON.stringify({ keys: [{ id, name: 'bench', hash, scopes, createdAt: new Date().toISOString() }] }))
  return { options: { keysFile }, token }
}

async function ofIssuer (): Promise<BenchCredentials> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwks = JSON.stringify({ keys: [{ ...await exportJWK(publicKey), kid: 'bench', alg: 'ES256' }] })
  const server = createServer((_request, response) => response.setHeader('content-type', 'application/json').end(jwks))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const token = await new SignJWT({ scope: 'tools:invoke' }).setProtectedHeader({ alg: 'ES256', kid: 'bench' })
    .setIssuer(issuer).setAudience('toolgate').setSubject('bench').setIssuedAt().setExpirationTime('1h').sign(privateKey)
  return { options: { jwksUrl: `${issuer}/jwks`, jwtIssuer: [issuer], jwtAudience: ['toolgate'] }, token }
}
