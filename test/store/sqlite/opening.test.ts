import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, readdirSync, renameSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { migrate, versions } from '../../../src/store/sqlite/schema.ts'
import { startOf } from '../../conformance/calls.ts'
import { until } from '../../conformance/until.ts'
import { all, contentOf, openStore, placeOf, query, start, wholeCall } from './harness.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

/** A store with calls in it, closed. */
async function filled (t: TestContext, calls = 50) {
  const { folder, path } = placeOf(t)
  const { store } = openStore(t, path)
  for (let call = 0; call < calls; call++) void wholeCall(store)
  await until(() => store.head === 2 * calls, 'the calls')
  await store.close()
  return { folder, path }
}

const refused = (message: RegExp) => ({ name: 'GatewayError', code: 'store_refused', message })

function edit (path: string, sql: string): void {
  const connection = new DatabaseSync(path)
  connection.exec(sql)
  connection.close()
}

describe('opening a store', () => {
  it('makes the file and its folders, for the owner alone whatever the umask', async (t) => {
    const { folder } = placeOf(t)
    const before = process.umask(0)
    try {
      const path = join(folder, 'a/b/toolgate.db')
      const { store } = openStore(t, path)
      await wholeCall(store)
      assert.deepEqual(['a', 'a/b'].map((name) => modeOf(join(folder, name))), ['700', '700'])
      assert.deepEqual(readdirSync(join(folder, 'a/b')).sort().map((name) => [name, modeOf(join(folder, 'a/b', name))]),
        [['toolgate.db', '600'], ['toolgate.db-lock', '600'], ['toolgate.db-shm', '600'], ['toolgate.db-wal', '600']])
    } finally {
      process.umask(before)
    }
  })

  it('leaves the modes of what is there as they are', async (t) => {
    const { folder, path } = await filled(t)
    chmodSync(path, 0o640)
    chmodSync(folder, 0o755)
    openStore(t, path)
    assert.deepEqual([modeOf(path), modeOf(folder)], ['640', '755'])
  })

  it('says on disk whose the file is, without help of a log', async (t) => {
    const { path } = placeOf(t)
    openStore(t, path)
    const header = readFileSync(path)
    assert.equal(header.toString('latin1', 68, 72), 'Tlgt')
    assert.equal(header.readUInt32BE(60), versions.length)
    assert.equal(statSync(`${path}-wal`).size > 0, true, 'the epoch is in the log')
  })

  it('leaves one file when it is closed, and the lock', async (t) => {
    const { folder } = await filled(t)
    assert.deepEqual(readdirSync(folder).sort(), ['toolgate.db', 'toolgate.db-lock'])
  })

  it('takes an empty file for one that is still to be made', async (t) => {
    const { path } = placeOf(t)
    writeFileSync(path, '')
    const { store } = openStore(t, path)
    await wholeCall(store)
    assert.equal(modeOf(path), '600')
  })

  it('goes on after a start that was cut short while it made the file', async (t) => {
    const { folder, path } = placeOf(t)
    writeFileSync(`${path}-new`, 'half a file')
    const { store } = openStore(t, path)
    await wholeCall(store)
    assert.ok(!readdirSync(folder).includes('toolgate.db-new'))
  })

  describe('what cannot be used is refused, and left byte for byte as it was', () => {
    const cases: [what: string, spoil: (path: string) => void, message: RegExp][] = [
      ['a text', (path) => writeFileSync(path, 'not a database, but long enough to have a header of one hundred bytes. '.repeat(10)), /not an SQLite file/],
      ['a short text', (path) => writeFileSync(path, 'x'), /not an SQLite file/],
      ['a database of another program', (path) => edit(path, 'PRAGMA application_id = 42'), /belongs to another program/],
      ['a newer schema', (path) => edit(path, `PRAGMA user_version = ${versions.length + 1}`), new RegExp(`a newer version of Toolgate made it \\(schema ${versions.length + 1}; this one knows ${versions.length}\\)`)],
      ['a file that was cut short', (path) => truncateSync(path, statSync(path).size - 4096), /cut short/],
      ['a file that was cut in the middle of a page', (path) => truncateSync(path, 6000), /cut short/],
      ['a damaged file', (path) => {
        const bytes = readFileSync(path)
        bytes.fill(0xa5, 3 * 4096, 5 * 4096)
        writeFileSync(path, bytes)
      }, /damaged/],
      ['a log without its file', (path) => {
        writeFileSync(`${path}-wal`, 'frames')
        renameSync(path, `${path}.away`)
      }, /its log \(-wal\) is there without it/]
    ]
    for (const [what, spoil, message] of cases) {
      it(what, async (t) => {
        const { folder, path } = await filled(t)
        spoil(path)
        const before = contentOf(folder)
        assert.throws(() => openStore(t, path), refused(message))
        assert.deepEqual(contentOf(folder), before)
      })
    }

    it('a damaged file that has a log', async (t) => {
      const { path } = placeOf(t)
      const { lines, child, ended } = start(t, './writer-process.ts', [path])
      await until(() => lines.length > 2000, 'some writes', 20_000)
      child.kill('SIGKILL')
      await ended
      // Its first page is a frame of the log still; the others are nowhere.
      writeFileSync(path, Buffer.concat([readFileSync(path).subarray(0, 4096), Buffer.alloc(20 * 4096, 0x5a)]))
      truncateSync(`${path}-wal`, 32 + 24 + 4096)
      const before = [readFileSync(path), readFileSync(`${path}-wal`)]
      assert.throws(() => openStore(t, path), refused(/damaged/))
      assert.deepEqual([readFileSync(path), readFileSync(`${path}-wal`)], before)
    })

    it('a folder', (t) => {
      const { folder, path } = placeOf(t)
      mkdirSync(path)
      assert.throws(() => openStore(t, path), refused(/it is a directory/))
      assert.deepEqual(readdirSync(folder), ['toolgate.db'])
    })

    it('a device', (t) => assert.throws(() => openStore(t, '/dev/null'), refused(/it is not a file/)))

    it('a path through a file', (t) => {
      const { path } = placeOf(t)
      writeFileSync(path, '')
      assert.throws(() => openStore(t, join(path, 'x.db')), refused(/opening it failed \(E(NOTDIR|EXIST)\)/))
    })

    it('and the message names the path as it was given', (t) => {
      const { folder, path } = placeOf(t)
      mkdirSync(path)
      assert.throws(() => openStore(t, `${folder}/../${folder.split('/').at(-1)}/toolgate.db`), refused(/^The store .*\/\.\.\/.*toolgate\.db cannot be used/))
    })
  })

  describe('what can only be read is refused', () => {
    // As somebody whom permissions bind, which they do not bind root.
    function openAsSomebody (path: string): string {
      const script = fileURLToPath(new URL('./open-process.ts', import.meta.url))
      return execFileSync(process.execPath, [script, path], { encoding: 'utf8' })
    }

    it('a folder', (t) => {
      const { folder, path } = placeOf(t)
      chmodSync(folder, 0o555)
      assert.match(openAsSomebody(path), /^store_refused .*cannot be written/)
      assert.deepEqual(readdirSync(folder), [])
    })

    it('a file', async (t) => {
      const { folder, path } = await filled(t)
      chmodSync(folder, 0o777)
      chmodSync(path, 0o444)
      chmodSync(`${path}-lock`, 0o666)
      const before = contentOf(folder)
      assert.match(openAsSomebody(path), /^store_refused .*cannot be written/)
      assert.deepEqual(contentOf(folder), before)
    })

    const canMount = spawnSync('unshare', ['-m', 'true']).status === 0
    if (canMount) {
      it('a file system', async (t) => {
        const { folder, path } = await filled(t)
        const script = fileURLToPath(new URL('./open-process.ts', import.meta.url))
        const said = execFileSync('unshare', ['-m', 'sh', '-c', `mount --bind '${folder}' '${folder}' && mount -o remount,ro,bind '${folder}' && '${process.execPath}' '${script}' '${path}' as-it-is`], { encoding: 'utf8' })
        assert.match(said, /^store_refused .*read-only/)
      })
    }
  })

  describe('a second time', () => {
    const inUse = refused(/it is in use by another gateway/)

    it('is refused in the same process, by whatever name', async (t) => {
      const { folder, path } = placeOf(t)
      const { store } = openStore(t, path)
      assert.throws(() => openStore(t, path), inUse)
      symlinkSync(path, join(folder, 'other.db'))
      symlinkSync(folder, join(folder, 'link'))
      assert.throws(() => openStore(t, join(folder, 'other.db')), inUse)
      assert.throws(() => openStore(t, join(folder, 'link/toolgate.db')), inUse)
      await wholeCall(store)
      assert.equal(store.head, 2)
    })

    it('is refused in another process, and goes once the first is closed', async (t) => {
      const { path } = placeOf(t)
      const { store } = openStore(t, path)
      const script = fileURLToPath(new URL('./open-process.ts', import.meta.url))
      const open = () => execFileSync(process.execPath, [script, path, 'as-it-is'], { encoding: 'utf8' })
      assert.match(open(), /^store_refused .*in use by another gateway/)
      // Having been asked for did not loosen the lock.
      assert.match(open(), /^store_refused .*in use by another gateway/)
      await store.close()
      assert.equal(open(), 'opened\n')
    })

    it('goes after the first process was killed, with all that it acknowledged', async (t) => {
      const { path } = placeOf(t)
      const { lines, child, ended } = start(t, './writer-process.ts', [path])
      await until(() => lines.includes('open'), 'the other process', 20_000)
      assert.throws(() => openStore(t, path), inUse)
      child.kill('SIGKILL')
      await ended
      openStore(t, path)
    })
  })

  describe('migrations', () => {
    it('take an older file to the newest schema, each whole or not at all', async (t) => {
      const { path } = await filled(t)
      const connection = new DatabaseSync(path)
      t.after(() => connection.close())
      const next = [...versions, 'ALTER TABLE calls ADD COLUMN colour TEXT', 'CREATE TABLE more (id INTEGER) STRICT; and so on']
      assert.throws(() => migrate(connection, next), /syntax error/)
      assert.deepEqual({ ...connection.prepare('PRAGMA user_version').get() }, { user_version: versions.length + 1 })
      assert.equal(connection.prepare("SELECT count(*) AS tables FROM sqlite_schema WHERE name = 'more'").get()!.tables, 0)
      assert.equal(migrate(connection, next.slice(0, -1)), false)
      assert.equal(connection.prepare('SELECT count(colour) AS none, count(*) AS calls FROM calls').get()!.calls, 50)
    })
  })

  it('keeps a running call whose input is long, and finds it fast', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    const long = startOf({ input: JSON.stringify('x'.repeat(2 ** 20)) })
    await store.begin(long, { scope: 's', fingerprint: 'f', untilMs: 1e15 })
    for (let call = 0; call < 5000; call++) void wholeCall(store)
    await until(() => store.head === 10_001, 'the calls')
    await store.close()
    assert.deepEqual(query(path, 'SELECT settled_below FROM log'), [{ settled_below: 1 }])
    const { store: again } = openStore(t, path)
    assert.deepEqual((await again.unsettled()).map((call) => ({ ...call.start })), [{ ...long }])
    await again.settle(long.invocationId, { status: 'failed', errorCode: 'outcome_unknown', isError: true, result: '{}', executed: false, durationMs: 0, queuedMs: undefined })
    assert.equal(await again.begin(startOf(), { scope: 's', fingerprint: 'g', untilMs: 1e15 }), undefined, 'it knew its key')
    await again.close()
    assert.deepEqual(query(path, 'SELECT settled_below FROM log'), [{ settled_below: 10_003 }])
    assert.equal(openStore(t, path).store.readEvents(0, all).events.length, 10_003)
  })
})
