import assert from 'node:assert/strict'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { hashOf, isKeyText } from '../../src/auth/keys/key-text.ts'
import { fileOf, makeKey } from '../auth/keys/keys.ts'
import { directoryOf } from '../e2e/cli.ts'
import { shell, withoutTerminals, type ShellOptions } from './command-line.ts'

const usual = ['tools:read', 'tools:invoke', 'events:read?own', 'invocations:read?own', 'invocations:cancel?own']

/** Commands in a folder in which `keys.json` is the file. */
async function inFolder (t: TestContext, files: Record<string, string> = {}) {
  const cwd = await directoryOf(t, files)
  const path = join(cwd, 'keys.json')
  return {
    cwd,
    path,
    run: (command: string, { env = { TOOLGATE_KEYS_FILE: 'keys.json' }, ...more }: ShellOptions = {}) => shell(t, command, { cwd, env, ...more }),
    entries: async (): Promise<any[]> => JSON.parse(await readFile(path, 'utf8')).keys
  }
}

describe('toolgate keys create', { concurrency: 3 }, () => {
  it('makes the file, and prints the key alone on standard output', async (t) => {
    const { run, path, entries } = await inFolder(t)
    const { stdout, stderr, code } = await run('toolgate keys create ci')
    const key = stdout.trimEnd()
    const [entry, ...others] = await entries()
    assert.deepEqual([code, isKeyText(key), stdout, others], [0, true, `${key}\n`, []])
    assert.deepEqual({ ...entry, createdAt: undefined }, { id: key.slice(4, 16), name: 'ci', hash: hashOf(key), scopes: usual, createdAt: undefined })
    assert.match(stderr, /keys\.json is new\./)
    assert.ok(stderr.includes(entry.id) && stderr.includes('this once') && !stderr.includes(key.slice(-20)), stderr)
    assert.equal((await stat(path)).mode & 0o777, 0o600)
    assert.ok(!(await readFile(path, 'utf8')).includes(key.slice(-20)), 'the key stands nowhere')
  })

  it('takes scopes, tools and an end', async (t) => {
    const { run, entries } = await inFolder(t)
    const { code } = await run("toolgate keys create ops --scope 'events:read?tool=get_*&own' --scope admin --tool 'get_*' --tool a --expires 90d && toolgate keys create ops --expires 2099-01-31")
    const [narrow, dated] = await entries()
    assert.deepEqual([code, narrow.scopes, narrow.tools], [0, ['events:read?tool=get_*&own', 'admin'], ['get_*', 'a']])
    assert.ok(Math.abs(Date.parse(narrow.expiresAt) - Date.parse(narrow.createdAt) - 90 * 86_400_000) < 60_000)
    assert.equal(dated.expiresAt, '2099-01-31T00:00:00.000Z')
  })

  it('of several processes at once lose none', async (t) => {
    const { run, entries } = await inFolder(t)
    const { code, stdout } = await run('for i in 1 2 3 4 5 6; do toolgate keys create "name$i" & done; wait')
    const keys = await entries()
    assert.deepEqual([code, keys.map(({ name }) => name).sort()], [0, [1, 2, 3, 4, 5, 6].map((i) => `name${i}`)])
    assert.deepEqual(keys.map(({ hash }) => hash).sort(), stdout.trimEnd().split('\n').map(hashOf).sort())
  })

  for (const args of ['', 'a b c', '"a b"', "''", '-- -a', 'ci --scope tools:write', 'ci --scope "tools:read?own"', 'ci --tool "a b"', 'ci --expires soon', 'ci --expires 1999-01-01', 'ci --expires 2027-02-30', 'ci --expires 0d', 'ci --expires 999999999d', 'ci --expiry 9d']) {
    it(`with ${args || 'no name'} is code 2, and nothing is made`, async (t) => {
      const { run, path } = await inFolder(t)
      const { code, stdout, stderr } = await run(`toolgate keys create ${args}`)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^error: /)
      await assert.rejects(stat(path), { code: 'ENOENT' })
    })
  }

  it('changes no file that is refused, and says what is wrong with it', async (t) => {
    const { run, path } = await inFolder(t, { 'keys.json': '{"keys":[{"id":"x"}]}' })
    const { code, stdout, stderr } = await run('toolgate keys create ci')
    assert.deepEqual([code, stdout, await readFile(path, 'utf8')], [2, '', '{"keys":[{"id":"x"}]}'])
    assert.match(stderr, /\/keys\/0\/id: must be 12/)
  })

  it('says so where the file cannot be written', async (t) => {
    const { run } = await inFolder(t, { folder: 'a file' })
    const { code, stdout, stderr } = await run('toolgate keys create ci --keys-file folder/keys.json')
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /^error: .*cannot be written \((ENOTDIR|EEXIST)\)\n$/)
  })
})

describe('toolgate keys list', { concurrency: 3 }, () => {
  const keys = [
    makeKey('ci', { scopes: ['tools:read', 'admin'], tools: ['get_*'] }),
    makeKey('ci', { expiresAt: '2026-02-01' }),
    makeKey('dashboard', { revokedAt: '2026-03-01', expiresAt: '2026-02-01' }),
    makeKey('dashboard', { expiresAt: '2099-04-01' })
  ]
  const files = { 'keys.json': fileOf(...keys) }

  it('is JSON in a pipe: all but the hashes, and how each stands', async (t) => {
    const { run } = await inFolder(t, files)
    const { code, stdout, stderr } = await run('toolgate keys list')
    const expected = keys.map(({ entry: { hash, ...entry } }, at) => ({ ...entry, status: ['active', 'expired', 'revoked', 'active'][at] }))
    assert.deepEqual([code, stderr, JSON.parse(stdout)], [0, '', { keys: expected }])
    assert.equal(stdout.split('\n').length, 2, 'one line')
  })

  it('is a table on a terminal, or JSON where that is asked for', { skip: withoutTerminals }, async (t) => {
    const { run } = await inFolder(t, files)
    const [one, two, three, four] = keys.map(({ entry }) => entry.id)
    const { code, screen, stdout } = await run('toolgate keys list', { columns: 110 })
    assert.deepEqual([code, screen], [0, [
      `${one}  ci         active                   created 2026-01-01 00:00  get_*      tools:read, admin`,
      `${two}  ci         expired 2026-02-01       created 2026-01-01 00:00  all tools  admin`,
      `${three}  dashboard  revoked 2026-03-01       created 2026-01-01 00:00  all tools  admin`,
      `${four}  dashboard  active until 2099-04-01  created 2026-01-01 00:00  all tools  admin`,
      ''
    ]])
    assert.doesNotMatch(stdout, /sha256|[0-9a-f]{64}/)
    assert.equal(JSON.parse((await run('toolgate keys list --json', { columns: 110 })).stdout).keys.length, 4)
  })
})

describe('toolgate keys revoke', { concurrency: 3 }, () => {
  const [old, next, other, late] = [makeKey('ci'), makeKey('ci'), makeKey('other'), makeKey('other', { expiresAt: '2026-02-01' })]
  const files = { 'keys.json': fileOf(old, next, other, late) }

  const cases: [args: string, code: number, revoked: string[], told: RegExp][] = [
    [old.entry.id, 0, [old.entry.id], /^Revoked: /],
    ['other', 0, [other.entry.id], /^Revoked: /],
    [late.entry.id, 0, [late.entry.id], /^Revoked: /],
    ['ci', 2, [], new RegExp(`ci has several keys: ${old.entry.id} of 2026-01-01 00:00, ${next.entry.id} of 2026-01-01 00:00.*--all`)],
    ['ci --all', 0, [old.entry.id, next.entry.id], /^Revoked: /],
    ['nobody', 2, [], /there is no key with the id or name "nobody"/]
  ]
  for (const [args, expected, revoked, told] of cases) {
    it(`${args} ends with ${expected}: ${revoked.length} revoked`, async (t) => {
      const { run, entries } = await inFolder(t, files)
      const { code, stdout, stderr } = await run(`toolgate keys revoke ${args}`)
      assert.deepEqual([code, stdout], [expected, ''])
      assert.match(stderr, told)
      const after = await entries()
      assert.deepEqual(after.filter(({ revokedAt }) => revokedAt !== undefined).map(({ id }) => id), revoked)
      assert.deepEqual(after.map(({ revokedAt, ...entry }) => entry), [old, next, other, late].map(({ entry }) => entry))
    })
  }

  it('a second time changes nothing', async (t) => {
    const { run, path } = await inFolder(t, { 'keys.json': fileOf(makeKey('ci', { revokedAt: '2026-03-01' })) })
    const before = await readFile(path, 'utf8')
    const { code, stderr } = await run('toolgate keys revoke ci && toolgate keys revoke ci --all')
    assert.deepEqual([code, stderr, await readFile(path, 'utf8')], [0, 'ci is not in force any more: there is nothing to revoke.\n'.repeat(2), before])
  })
})

describe('the file that toolgate keys works on', { concurrency: 3 }, () => {
  it('has to be named', async (t) => {
    const { run } = await inFolder(t)
    for (const command of ['create ci', 'list', 'revoke ci']) {
      const { code, stderr } = await run(`toolgate keys ${command}`, { env: {} })
      assert.deepEqual([code, stderr], [2, 'error: --keys-file or TOOLGATE_KEYS_FILE has to name the file of keys\n'])
    }
  })

  it('has to be there for all but create', async (t) => {
    const { run, path } = await inFolder(t)
    for (const command of ['list', 'revoke ci']) {
      const { code, stderr } = await run(`toolgate keys ${command}`)
      assert.equal(code, 2)
      assert.match(stderr, /There is no keys file keys\.json; `toolgate keys create` makes a new one, without the keys of any other\./)
    }
    await assert.rejects(stat(path), { code: 'ENOENT' })
  })

  it('is that of the option, the variable, or the file of settings, whatever else is at fault there', async (t) => {
    const { run, cwd } = await inFolder(t, { 'conf/x.json': '{"keysFile":"own.json","port":"eighty","host":"0.0.0.0"}' })
    await writeFile(join(cwd, 'toolgate.config.json'), '{"keysFile":"usual.json"}')
    const { code, stderr } = await run([
      'toolgate keys create a',
      'TOOLGATE_KEYS_FILE=variable.json toolgate keys create a',
      'TOOLGATE_KEYS_FILE=variable.json toolgate keys create a --keys-file option.json',
      'toolgate keys create a --config conf/x.json'
    ].join(' && '), { env: {} })
    assert.equal(code, 0, stderr)
    for (const name of ['usual.json', 'variable.json', 'option.json', 'conf/own.json']) assert.equal(JSON.parse(await readFile(join(cwd, name), 'utf8')).keys.length, 1, name)
  })
})
