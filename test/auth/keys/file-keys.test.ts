import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { FileKeys } from '../../../src/auth/keys/file-keys.ts'
import { FollowedFile, LOOK_MS } from '../../../src/auth/keys/followed-file.ts'
import { FakeClock } from '../../conformance/fake-clock.ts'
import { until } from '../../conformance/until.ts'
import { directoryOf } from '../../e2e/cli.ts'
import { fileOf, keptLog, makeKey, type MadeKey } from './keys.ts'

const [a, b] = [makeKey('a'), makeKey('b')]

async function opened (t: TestContext, files: Record<string, string> = { 'keys.json': fileOf(a) }, prepare: (folder: string) => Promise<void> = async () => {}) {
  const folder = await directoryOf(t, files)
  await prepare(folder)
  const path = join(folder, 'keys.json')
  const clock = new FakeClock()
  const log = keptLog()
  const keys = await FileKeys.open(path, clock, log)
  t.after(() => keys.close())
  return {
    folder, path, keys, log, clock,
    has: ({ text }: MadeKey) => keys.find(text) !== undefined,
    /** Lets it look at the file once more, and waits until it has. */
    async look (times = 1) {
      for (let time = 0; time < times; time++) {
        clock.advance(LOOK_MS)
        await until(() => clock.pending > 0, 'the end of the look')
      }
    },
    write: (...given: MadeKey[]) => writeFile(path, fileOf(...given)),
    logged: (message: RegExp) => log.lines.filter((line) => message.test(line.message))
  }
}

/** As Kubernetes mounts a secret: the file is a link into `..data`, which is a link to the folder in force. */
async function mount (folder: string, version: string, ...keys: MadeKey[]): Promise<void> {
  await mkdir(join(folder, version))
  await writeFile(join(folder, version, 'keys.json'), fileOf(...keys))
  await symlink(version, join(folder, '..data_tmp'))
  await rename(join(folder, '..data_tmp'), join(folder, '..data'))
}

describe('a file of keys that changes', { concurrency: true }, () => {
  const ways: [what: string, change: (path: string) => Promise<void>][] = [
    ['written in place', (path) => writeFile(path, fileOf(b))],
    ['replaced', async (path) => {
      await writeFile(`${path}.new`, fileOf(b))
      await rename(`${path}.new`, path)
    }],
    ['removed and made again', async (path) => {
      await rm(path)
      await writeFile(path, fileOf(b))
    }]
  ]
  for (const [what, change] of ways) {
    it(`is read again at the next look: ${what}`, async (t) => {
      const { path, keys, look, has } = await opened(t)
      const caller = await keys.find(a.text)!
      await change(path)
      assert.deepEqual([has(a), has(b)], [true, false])
      await look()
      assert.deepEqual([has(a), has(b), caller!.isCurrent()], [false, true, false])
    })
  }

  it('is read again where a link on the way to it was swapped', async (t) => {
    const { folder, look, has } = await opened(t, {}, async (folder) => {
      await mount(folder, '..one', a)
      await symlink('..data/keys.json', join(folder, 'keys.json'))
    })
    await mount(folder, '..two', b)
    await look()
    assert.deepEqual([has(a), has(b)], [false, true])
    await mount(folder, '..three', a, b)
    await rm(join(folder, '..two'), { recursive: true })
    await look()
    assert.deepEqual([has(a), has(b)], [true, true])
  })

  it('is read at every look for two seconds after a change, as two writes can have one stamp, and then no more', async (t) => {
    const path = join(await directoryOf(t, { 'keys.json': '1' }), 'keys.json')
    const clock = new FakeClock()
    let reads = 0
    const never = () => assert.fail('there is no fault')
    const file = new FollowedFile({ path, clock, read: async () => { reads++ }, onFault: never, onMended: never })
    await file.open()
    t.after(() => file.close())
    const readsOf = async (looks: number) => {
      reads = 0
      for (let look = 0; look < looks; look++) {
        clock.advance(LOOK_MS)
        await until(() => clock.pending > 0, 'the end of the look')
      }
      return reads
    }
    await readsOf(20)
    assert.equal(await readsOf(20), 0)
    await writeFile(path, '2')
    assert.equal(await readsOf(20), 1 + 2000 / LOOK_MS)
    assert.equal(await readsOf(20), 0)
  })

  it('that says the same in other words changes nothing, and nothing is logged', async (t) => {
    const { path, keys, look, log } = await opened(t)
    const caller = await keys.find(a.text)!
    await writeFile(path, JSON.stringify(JSON.parse(fileOf(a)), undefined, 4))
    await look(20)
    assert.equal(keys.find(a.text), caller)
    assert.equal(caller!.isCurrent(), true)
    assert.equal(log.lines.length, 1)
  })

  it('is not looked at any more after the close', async (t) => {
    const { keys, clock } = await opened(t)
    await keys.close()
    assert.equal(clock.pending, 0)
  })

  it('is logged by ids and names, never by hashes', async (t) => {
    const { look, write, log } = await opened(t)
    await write(a, b)
    await look()
    await write({ ...b, entry: { ...b.entry, revokedAt: '2026-01-01' } })
    await look()
    const publicOf = ({ entry: { id, name } }: MadeKey) => ({ id, name })
    assert.deepEqual(log.lines.filter(({ level }) => level === 'info').map(({ fields: { keys, inForce, added, changed, removed } }) => [inForce, keys, added, changed, removed]), [
      [1, 1, [publicOf(a)], [], []],
      [2, 2, [publicOf(b)], [], []],
      [0, 1, [], [publicOf(b)], [publicOf(a)]]
    ])
    assert.deepEqual(log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message), ['no key of the file is in force'])
    assert.doesNotMatch(JSON.stringify(log.lines), /sha256|[0-9a-f]{64}/)
  })
})

describe('a file of keys that cannot be used', { concurrency: true }, () => {
  const faults: [what: string, spoil: (path: string) => Promise<void>, reason: RegExp][] = [
    ['is gone', (path) => rm(path), /There is no keys file/],
    ['is gone with its folder', (path) => rm(dirname(path), { recursive: true }), /There is no keys file/],
    ['is a folder', async (path) => { await rm(path); await mkdir(path) }, /is no file/],
    // To read it would take until somebody writes to it.
    ['is a pipe', async (path) => { await rm(path); execFileSync('mkfifo', [path]) }, /is no file/],
    ['is half of one', (path) => writeFile(path, fileOf(a).slice(0, 50)), /is not JSON/],
    ['is refused', (path) => writeFile(path, '{"keys":[{"hash":"secret"}]}'), /\/keys\/0\/hash: must be sha256/]
  ]
  for (const [what, spoil, reason] of faults) {
    it(`that ${what} leaves the keys in force, is told once, and again when it is mended`, async (t) => {
      const { path, keys, look, has, write, logged } = await opened(t)
      const caller = await keys.find(a.text)!
      await spoil(path)
      await look(20)
      assert.deepEqual([has(a), caller!.isCurrent()], [true, true])
      const errors = logged(/cannot be used/)
      assert.deepEqual(errors.map(({ level }) => level), ['error'])
      assert.match(errors[0]!.fields.reason, reason)
      assert.doesNotMatch(JSON.stringify(errors), /secret/)
      assert.equal(keys.fault!.code, 'keys_unreadable')
      assert.ok(!keys.fault!.message.includes(path))

      await rm(path, { recursive: true, force: true })
      await mkdir(dirname(path), { recursive: true })
      await write(b)
      await look()
      assert.deepEqual([has(a), has(b), keys.fault], [false, true, undefined])
      assert.deepEqual(logged(/can be used again/).map(({ level }) => level), ['info'])
    })
  }

  it('is told again for another reason', async (t) => {
    const { path, look, logged } = await opened(t)
    await writeFile(path, '')
    await look(3)
    await writeFile(path, '[]')
    await look(3)
    assert.deepEqual(logged(/cannot be used/).map(({ fields }) => /not JSON|an object/.exec(fields.reason)?.[0]), ['not JSON', 'an object'])
  })

  it('that is seen half written by bad luck is no fault', async (t) => {
    const { path, keys, look, has, write, logged } = await opened(t)
    await writeFile(path, fileOf(b).slice(0, 30))
    await look()
    await write(b)
    await look()
    assert.deepEqual([has(b), keys.fault, logged(/cannot be used/).length], [true, undefined, 0])
  })

  it('for a time that no change of it ends is read again until it can be', async (t) => {
    const clock = new FakeClock()
    const heard: string[] = []
    let canBeRead = true
    const read = async () => { if (!canBeRead) throw new Error('EIO') }
    const file = new FollowedFile({ path: import.meta.filename, clock, read, onFault: (reason) => heard.push(reason), onMended: () => heard.push('mended') })
    t.after(() => file.close())
    await file.open()
    const look = async () => {
      clock.advance(LOOK_MS)
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    }
    canBeRead = false
    await until(async () => { await look(); return heard.length > 0 }, 'the fault')
    clock.advance(60_000)
    await look()
    canBeRead = true
    await until(async () => { await look(); return heard.length > 1 }, 'its end')
    assert.deepEqual(heard, ['EIO', 'mended'])
  })

  for (const [what, files, message] of [
    ['is not there', {}, /There is no keys file .*keys\.json; `toolgate keys create` makes a new one, without the keys of any other\./],
    ['is refused', { 'keys.json': '{"keys":[{}]}' }, /\/keys\/0\/id: must be/]
  ] as const) {
    it(`at the start refuses it: it ${what}`, async (t) => {
      await assert.rejects(opened(t, files), { code: 'invalid_config', message })
    })
  }
})
