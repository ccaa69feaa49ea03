import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { rowsOf } from '../conformance/markdown-table.ts'
import { textOf } from '../docs/markdown.ts'
import { afterHooks } from './cases/after-hooks.ts'
import { batches } from './cases/batches.ts'
import { beforeHooks } from './cases/before-hooks.ts'
import { input } from './cases/input.ts'
import { json } from './cases/json.ts'
import { ownCases } from './cases/own.ts'
import { progress } from './cases/progress.ts'
import { results } from './cases/results.ts'
import { stops } from './cases/stops.ts'
import { thrown } from './cases/throws.ts'
import type { Case, OwnCase } from './case.ts'
import { assertSame, brief, flatten, rowsEverywhere } from './compare.ts'
import { runWithPi } from './with-pi.ts'
import { runWithToolgate } from './with-toolgate.ts'

const subjects: Record<string, (Case | OwnCase)[]> = {
  'what a tool returns': results,
  'what a tool throws': thrown,
  'what a tool is called with': input,
  'before-hooks': beforeHooks,
  'after-hooks': afterHooks,
  'what a tool tells while it runs': progress,
  'calls that are stopped': stops,
  'what JSON makes of it': json,
  'several calls at once': batches,
  'and beyond': ownCases
}

describe('the same tool, call and hooks, by pi and by the gateway', () => {
  for (const [what, cases] of Object.entries(subjects)) {
    describe(what, () => {
      for (const given of cases) {
        it(given.name, async (t) => {
          const pi = 'pi' in given ? await given.pi() : flatten(await runWithPi(given))
          const toolgate = 'pi' in given ? await given.toolgate(t) : flatten(await runWithToolgate(t, given))
          t.diagnostic(`pi:       ${brief(pi, given)}`)
          t.diagnostic(`toolgate: ${brief(toolgate, given)}${given.differs === undefined ? '' : ` [${[given.differs].flat().join(', ')}]`}`)
          assertSame(given, pi, toolgate)
        })
      }
    })
  }
})

describe('docs/pi.md', () => {
  const cases = Object.values(subjects).flat()
  const named = cases.flatMap(({ differs = [] }) => differs)

  it('has a row for each difference, and each row a case', async () => {
    const section = (await textOf('docs/pi.md')).split(/^## /m).find((part) => part.startsWith('Where Toolgate differs from pi'))
    const ids = rowsOf(section!).slice(1).map(([id]) => /^`([a-z-]+)`$/.exec(id!)![1]!)
    assert.deepEqual(ids, [...new Set(ids)], 'no id twice')
    assert.deepEqual([...new Set(named)].sort(), [...ids].sort())
    for (const row of rowsEverywhere) assert.ok(ids.includes(row))
  })

  it('no two cases have one name', () => {
    const names = cases.map(({ name }) => name)
    assert.deepEqual(names, [...new Set(names)])
  })
})
