import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

describe('after many reloads', () => {
  let left: { registries: number, tools: number, waiting: number, listeners: [number[], number[]], there: [number, number] }
  before(async () => {
    const program = fileURLToPath(new URL('reloads-in-a-row.ts', import.meta.url))
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', program], { timeout: 60_000 })
    left = JSON.parse(stdout)
  })

  it('nothing holds the registries, tools and descriptors from before', () => {
    assert.ok(left.there[0] >= 30 && left.there[1] >= 240, `${left.there}`)
    assert.deepEqual([left.registries, left.tools], [0, 0])
  })

  it('a call that runs holds its own tool and no more', () => {
    assert.equal(left.waiting, 2, 'the tool and its descriptor')
  })

  it('there are as many listeners as before', () => assert.deepEqual(left.listeners[1], left.listeners[0]))
})
