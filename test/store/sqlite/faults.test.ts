import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, it, type TestContext } from 'node:test'
import { faultOf } from '../../../src/store/sqlite/faults.ts'
import type { SqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'
import { endOf, startOf } from '../../conformance/calls.ts'
import type { FakeClock } from '../../conformance/fake-clock.ts'
import { until } from '../../conformance/until.ts'
import { all, openStore, placeOf, query, start, wholeCall } from './harness.ts'

const unavailable = { name: 'GatewayError', code: 'store_unavailable' }

/** A store with some calls in it, one of which runs, has updates and holds a key. */
async function working (t: TestContext) {
  const { folder, path } = placeOf(t)
  const { store, clock } = openStore(t, path)
  const ids: string[] = []
  for (let call = 0; call < 20; call++) ids.push(await wholeCall(store))
  const running = startOf()
  await store.begin(running, { scope: 'scope', fingerprint: 'input', untilMs: 1e15 })
  await store.progress(running.invocationId, '{"n":1}')
  return { folder, path, store, clock, ids, running }
}

async function recovered (store: SqliteStore, clock: FakeClock): Promise<void> {
  await until(() => {
    clock.advance(1000)
    return store.fault === undefined
  }, 'the fault to be over')
}

/** Every call is there, the one that ran goes on, and the file that stands at the path says so itself. */
async function assertWhole ({ store, path, ids, running }: Awaited<ReturnType<typeof working>>): Promise<void> {
  for (const id of ids) assert.equal(store.get(id)!.end!.status, 'succeeded')
  assert.deepEqual((await store.unsettled()).map((call) => call.start.invocationId), [running.invocationId])
  assert.equal(await store.settle(running.invocationId, endOf()), true)
  const earlier = await store.begin(startOf(), { scope: 'scope', fingerprint: 'input', untilMs: 1e15 })
  assert.equal(earlier!.call.end!.status, 'succeeded')
  const { events } = store.readEvents(0, all)
  assert.deepEqual(events.map((event) => event.sequence), Array.from({ length: 43 }, (_, n) => n + 1))
  assert.deepEqual(query(path, 'SELECT count(*) AS calls FROM ends'), [{ calls: 21 }])
  assert.deepEqual(query(path, 'PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
}

describe('a file that is deleted under a store', () => {
  it('refuses writes, says why, and is put back with all that was in it', async (t) => {
    const world = await working(t)
    const { store, clock, path, folder } = world
    for (const name of readdirSync(folder)) rmSync(join(folder, name))
    const refused = startOf()
    await assert.rejects(async () => store.begin(refused), { ...unavailable, message: 'The store cannot be used at the moment: the file of the store was deleted.' })
    assert.equal(store.fault, 'the file of the store was deleted')
    assert.equal(store.get(refused.invocationId), undefined)
    assert.equal(store.readEvents(0, all).events.length, 42, 'what is recorded can be read all the while')
    assert.equal(await store.settle(refused.invocationId, endOf()), false)
    await assert.rejects(async () => store.settle(world.running.invocationId, endOf()), unavailable)
    await recovered(store, clock)
    await assertWhole(world)
    assert.equal((statSync(path).mode & 0o777).toString(8), '600')
    assert.deepEqual(readdirSync(folder).sort(), ['toolgate.db', 'toolgate.db-lock', 'toolgate.db-shm', 'toolgate.db-wal'])
    assert.throws(() => openStore(t, path), /in use by another gateway/)
  })

  it('alone, with its log left behind, the same', async (t) => {
    const world = await working(t)
    rmSync(world.path)
    await assert.rejects(async () => world.store.begin(startOf()), unavailable)
    await recovered(world.store, world.clock)
    await assertWhole(world)
  })

  it('with its folder, the same', async (t) => {
    const world = await working(t)
    rmSync(world.folder, { recursive: true })
    await assert.rejects(async () => world.store.begin(startOf()), unavailable)
    await recovered(world.store, world.clock)
    await assertWhole(world)
  })

  it('survives the process afterwards', async (t) => {
    const { store, clock, path, ids } = await working(t)
    rmSync(path)
    await assert.rejects(async () => store.begin(startOf()), unavailable)
    await recovered(store, clock)
    const late = await wholeCall(store)
    const known = store.eventId(1)
    await store.close()
    const { store: again } = openStore(t, path)
    for (const id of [...ids, late]) assert.ok(again.get(id) !== undefined)
    assert.equal(again.locate(known), 1)
  })

  it('and whose store is closed right then, is put back', async (t) => {
    const { store, path, ids } = await working(t)
    rmSync(path)
    await store.close()
    const { store: again } = openStore(t, path)
    for (const id of ids) assert.ok(again.get(id) !== undefined)
  })

  it('stays away where it cannot be put back, until it can', async (t) => {
    const world = await working(t)
    const { store, clock, folder } = world
    renameSync(folder, `${folder}-away`)
    t.after(() => rmSync(`${folder}-away`, { recursive: true, force: true }))
    writeFileSync(folder, 'in the way')
    await assert.rejects(async () => store.begin(startOf()), unavailable)
    for (let probe = 0; probe < 3; probe++) {
      clock.advance(1000)
      await new Promise((resolve) => setTimeout(resolve, 5))
      assert.notEqual(store.fault, undefined)
    }
    rmSync(folder)
    renameSync(`${folder}-away`, folder)
    await recovered(store, clock)
    await assertWhole(world)
  })
})

describe('a write-ahead log that is deleted under a store', () => {
  it('is made again, with nothing lost', async (t) => {
    const world = await working(t)
    const { store, clock, path } = world
    assert.ok(statSync(`${path}-wal`).size > 0)
    rmSync(`${path}-wal`)
    await assert.rejects(async () => store.begin(startOf()), { ...unavailable, message: /the write-ahead log of the store was deleted or replaced/ })
    await recovered(store, clock)
    await assertWhole(world)
    assert.ok(existsSync(`${path}-wal`))
  })
})

describe('a file that is replaced under a store', () => {
  it('is not touched; once it is gone, the own one is put back', async (t) => {
    const world = await working(t)
    const { store, clock, path } = world
    renameSync(path, `${path}.mine`)
    writeFileSync(path, 'somebody else')
    await assert.rejects(async () => store.begin(startOf()), { ...unavailable, message: /replaced by another one/ })
    for (let probe = 0; probe < 3; probe++) {
      clock.advance(1000)
      await new Promise((resolve) => setTimeout(resolve, 5))
      assert.equal(store.fault, 'the file of the store was replaced by another one')
    }
    assert.equal(readFileSync(path, 'utf8'), 'somebody else')
    rmSync(path)
    await recovered(store, clock)
    await assertWhole(world)
  })

  it('and put back by hand, is gone on with', async (t) => {
    const world = await working(t)
    const { store, clock, path } = world
    renameSync(path, `${path}.mine`)
    copyFileSync(`${path}.mine`, path)
    await assert.rejects(async () => store.begin(startOf()), unavailable)
    renameSync(`${path}.mine`, path)
    await recovered(store, clock)
    await assertWhole(world)
  })
})

describe('a write that fails', () => {
  it('takes back all that its turn did: what began, what settled, what was claimed and let go', async (t) => {
    const world = await working(t)
    const { store, clock, path, running } = world
    const other = startOf()
    await store.begin(other, { scope: 'blocked', fingerprint: 'input', untilMs: 1e15 })
    rmSync(path)
    const head = store.head
    const [begun, keyed] = [startOf(), startOf()]
    const heard: unknown[] = []
    store.follow((event) => heard.push(event))
    const claim = { scope: 'new', fingerprint: 'input', untilMs: 1e15 }
    const writes = [
      store.begin(begun), store.mark(begun.invocationId), store.progress(begun.invocationId, '{}'), store.settle(begun.invocationId, endOf()),
      store.begin(keyed, claim), store.begin(startOf(), claim), store.mark(running.invocationId), store.progress(running.invocationId, '{}'),
      store.settle(running.invocationId, endOf()), store.settle(other.invocationId, endOf({ executed: false }))
    ]
    for (const { status } of await Promise.allSettled(writes)) assert.equal(status, 'rejected')
    assert.deepEqual([store.head, heard.length], [head, 0])
    assert.deepEqual((await store.unsettled()).map((call) => [call.start.invocationId, call.attempts]), [[running.invocationId, 0], [other.invocationId, 0]])
    assert.deepEqual([store.get(begun.invocationId), store.get(keyed.invocationId)], [undefined, undefined])
    await recovered(store, clock)
    assert.equal(await store.begin(keyed, claim), undefined, 'the key was never claimed')
    assert.equal((await store.begin(startOf(), { scope: 'blocked', fingerprint: 'x', untilMs: 1e15 }))!.call.start.invocationId, other.invocationId, 'nor that one let go')
    assert.equal(await store.settle(other.invocationId, endOf({ executed: false })), true)
    assert.equal(store.head, head + 2)
  })
})

describe('a lock that is deleted under a store', () => {
  it('is taken again at the next write', async (t) => {
    const world = await working(t)
    rmSync(`${world.path}-lock`)
    world.ids.push(await wholeCall(world.store))
    assert.equal(world.store.fault, undefined)
    assert.throws(() => openStore(t, world.path), /in use by another gateway/)
  })

  it('and taken by another one first, leaves the log to that one', async (t) => {
    const { path, store, clock, running } = await working(t)
    rmSync(`${path}-lock`)
    const { store: other } = openStore(t, path)
    await assert.rejects(async () => store.settle(running.invocationId, endOf()), unavailable)
    await assert.rejects(async () => store.begin(startOf()), unavailable)
    assert.equal(store.fault, 'another gateway has taken the file of the store')
    clock.advance(1000)
    await wholeCall(other)
    assert.equal(await other.settle(running.invocationId, endOf()), true)
    clock.advance(1000)
    await assert.rejects(async () => store.begin(startOf()), unavailable)
    await store.close()
    assert.deepEqual(query(path, 'SELECT count(*) AS ends FROM ends'), [{ ends: 22 }])
  })
})

describe('a disk without room', () => {
  it('is called by its name', (t) => {
    const { path } = placeOf(t)
    const connection = new DatabaseSync(path)
    t.after(() => connection.close())
    connection.exec('CREATE TABLE t (x); PRAGMA max_page_count = 3')
    let fault: string | undefined
    try {
      connection.prepare('INSERT INTO t VALUES (?)').run('x'.repeat(100_000))
    } catch (error) {
      fault = faultOf(error)
    }
    assert.equal(fault, 'the disk is full')
  })

  /** The process writes, finds no room, and goes on by itself once there is some; all that it acknowledged is there. */
  async function fill (t: TestContext, path: string, spoil: (pid: number) => void, mend: (pid: number) => void, fault: RegExp) {
    const { lines, child, ended } = start(t, './writer-process.ts', [path])
    await until(() => lines.length > 100, 'writes', 20_000)
    spoil(child.pid!)
    await until(() => lines.some((line) => line.startsWith('refused')), 'a refusal', 20_000)
    assert.match(lines.find((line) => line.startsWith('refused'))!, fault)
    mend(child.pid!)
    const refusals = lines.length
    await until(() => lines.slice(refusals).some((line) => line.startsWith('settled')), 'service to come back', 20_000)
    child.kill('SIGKILL')
    await ended
    const { store } = openStore(t, path)
    for (const [what, id] of lines.map((line) => line.split(' '))) {
      if (what === 'settled') assert.equal(store.get(id!)!.end!.status, 'succeeded')
      if (what === 'begun') assert.ok(store.get(id!) !== undefined)
    }
    await store.close()
    assert.deepEqual(query(path, 'PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
  }

  it('for files of that size is recovered from', async (t) => {
    const { path } = placeOf(t)
    const limit = (pid: number, size: string) => execFileSync('prlimit', ['--pid', String(pid), `--fsize=${size}:`])
    await fill(t, path, (pid) => limit(pid, '2000000'), (pid) => limit(pid, 'unlimited'), /^refused store_unavailable the file of the store cannot be read or written/)
  })

  // Only root can make a disk.
  if (spawnSync('sh', ['-c', 'd=$(mktemp -d) && mount -t tmpfs tmpfs "$d" && umount "$d"; s=$?; rmdir "$d"; exit $s']).status === 0) {
    it('that the write-ahead log has taken is recovered from without help', async (t) => {
      const { folder } = placeOf(t)
      const disk = join(folder, 'disk')
      mkdirSync(disk)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m', 'tmpfs', disk])
      try {
        const path = join(disk, 'toolgate.db')
        const first = openStore(t, path, { maxRecords: 1, maxEvents: 1 })
        for (let call = 0; call < 3; call++) await wholeCall(first.store, { input: JSON.stringify('x'.repeat(2 ** 20)) })
        await wholeCall(first.store)
        first.clock.advance(6000)
        await first.store.close()
        // The file has room inside, and the disk less than the log may have before it is moved.
        writeFileSync(join(disk, 'ballast'), Buffer.alloc(6 * 2 ** 20))
        const { store, clock } = openStore(t, path)
        const settled: string[] = []
        const fill = async () => { for (;;) settled.push(await wholeCall(store)) }
        await assert.rejects(fill(), unavailable)
        assert.equal(store.fault, 'the disk is full')
        await recovered(store, clock)
        settled.push(await wholeCall(store))
        for (const id of settled) assert.equal(store.get(id)!.end!.status, 'succeeded')
        await store.close()
      } finally {
        execFileSync('umount', ['-l', disk])
      }
    })

    it('at all has no store made on it, and nothing of one', (t) => {
      const { folder } = placeOf(t)
      const disk = join(folder, 'disk')
      mkdirSync(disk)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk])
      try {
        writeFileSync(join(disk, 'ballast'), Buffer.alloc(2 ** 15))
        assert.throws(() => openStore(t, join(disk, 'toolgate.db')), { code: 'store_refused', message: /the disk is full/ })
        assert.deepEqual(readdirSync(disk), ['ballast'])
      } finally {
        execFileSync('umount', ['-l', disk])
      }
    })

    it('at all is recovered from', async (t) => {
      const { folder } = placeOf(t)
      const disk = join(folder, 'disk')
      mkdirSync(disk)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk])
      try {
        const ballast = join(disk, 'ballast')
        writeFileSync(ballast, Buffer.alloc(2 ** 21))
        await fill(t, join(disk, 'toolgate.db'), () => {}, () => rmSync(ballast), /^refused store_unavailable the disk is full/)
      } finally {
        execFileSync('umount', ['-l', disk])
      }
    })
  }
})
