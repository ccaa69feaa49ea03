import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ToolRegistry } from '../../src/tools/registry.ts'
import type { CsvProfile } from '../../tools/profile-csv.ts'
import { context, profileCsv } from './load.ts'

const registry = new ToolRegistry().register(profileCsv).seal()

/** Through the registry, so that what comes back matches the tool's own outputSchema. */
async function profile (csv: string, input: object = {}): Promise<CsvProfile> {
  return (await registry.invoke({ toolId: 'profile_csv', input: { csv, ...input } })).value
}

async function column (values: string[], input: object = {}) {
  const { columns } = await profile(['x', ...values].join('\n'), input)
  return columns[0]!
}

async function run (csv: string, { signal = new AbortController().signal, onUpdate = (_partial: any) => {} } = {}) {
  const result = await profileCsv.execute('call-1', { csv }, signal, onUpdate, context)
  return { ...result, text: (result.content![0] as { text: string }).text }
}

const names = ({ columns }: CsvProfile) => columns.map(({ name }) => name)

describe('profile_csv', () => {
  describe('statistics', () => {
    it('of a small sample are those worked out by hand', async () => {
      const found = await column(['2', '4', '4', '4', '5', '5', '7', '9'])
      assert.equal(found.type, 'integer')
      assert.deepEqual([found.count, found.missing, found.distinct, found.min, found.max], [8, 0, 5, 2, 9])
      assert.equal(found.mean, 5)
      near(found.stddev, Math.sqrt(32 / 7))
      const { p05, p25, p50, p75, p95 } = found.quantiles!
      ;[[p05, 2.7], [p25, 4], [p50, 4.5], [p75, 5.5], [p95, 8.3]].forEach(([actual, expected]) => near(actual!, expected!))
      assert.deepEqual(found.top, [{ value: 4, count: 3 }, { value: 5, count: 2 }])
    })

    it('of one value are that value, with no deviation', async () => {
      const found = await column(['3.5'])
      assert.deepEqual([found.min, found.max, found.mean, found.stddev], [3.5, 3.5, 3.5, null])
      assert.deepEqual(found.quantiles, { p05: 3.5, p25: 3.5, p50: 3.5, p75: 3.5, p95: 3.5 })
    })

    it('equal numbers are one, however they are written', async () => {
      const found = await column(['1', '1.0', '+1', '1e0', '-0', '0'])
      assert.equal(found.type, 'number')
      assert.equal(found.distinct, 2)
      assert.deepEqual(found.top, [{ value: 1, count: 4 }, { value: 0, count: 2 }])
    })

    it('a small spread far from zero is not lost to rounding', async () => {
      const found = await column(['1000000004', '1000000007', '1000000013', '1000000016'])
      assert.equal(found.mean, 1_000_000_010)
      near(found.stddev, Math.sqrt(30))
    })

    it('the mean of many tenths is a tenth', async () => {
      assert.equal((await column(Array(10_000).fill('0.1'))).mean, 0.1)
    })
  })

  describe('types', () => {
    const cases: [type: string, why: string, values: string[]][] = [
      ['integer', 'signs are taken', ['-3', '+4', '0']],
      ['number', 'integers among decimals', ['1', '2.5', '.5', '6.', '1e-3']],
      ['string', 'leading zeros belong to a code', ['00501', '10001']],
      ['string', 'digits past 2^53 are an identifier', ['12345678901234567890']],
      ['string', 'a number that no double holds', ['1e400']],
      ['string', 'thousands separators are not read', ['"1,000"']],
      ['boolean', 'in any case', ['true', 'False', 'TRUE']],
      ['integer', '0 and 1 are not booleans', ['0', '1']],
      ['date', 'ISO dates and times', ['2024-02-29', '2024-03-01T10:00:00Z', '2024-03-01 10:00+02:00']],
      ['string', 'a day that is not in the calendar', ['2023-02-29']],
      ['string', 'a bare year or another order is no ISO date', ['01/02/2024']],
      ['string', 'kinds are mixed', ['1', 'true']],
      ['empty', 'nothing but missing values', ['NA', 'null', '""']]
    ]
    for (const [type, why, values] of cases) {
      it(`${type}: ${why}`, async () => assert.equal((await column(values)).type, type))
    }

    it('a stray word among numbers shows in kinds', async () => {
      const found = await column(['1', '2', 'unknown', '4.5'])
      assert.equal(found.type, 'string')
      assert.deepEqual(found.kinds, { integer: 2, number: 1, boolean: 0, date: 0, string: 1 })
    })

    it('dates are compared as instants and shown as written', async () => {
      const found = await column(['2024-03-01T00:30:00+02:00', '2024-02-29T23:00:00Z', '2024-02-29'])
      assert.deepEqual([found.min, found.max, found.mean, found.quantiles], ['2024-02-29', '2024-02-29T23:00:00Z', null, null])
    })

    it('strings have a range and no mean, booleans neither', async () => {
      const { columns: [city, ok] } = await profile('city,ok\nOslo,true\nBergen,TRUE\nOslo,false\n')
      assert.deepEqual([city!.min, city!.max, city!.mean, city!.distinct], ['Bergen', 'Oslo', null, 2])
      assert.deepEqual(city!.top, [{ value: 'Oslo', count: 2 }])
      assert.deepEqual([ok!.min, ok!.max, ok!.mean, ok!.distinct], [null, null, null, 2])
      assert.deepEqual(ok!.top, [{ value: 'true', count: 2 }])
    })
  })

  describe('missing values', () => {
    it('are empty fields, NA, N/A, NaN and null, and nothing like them', async () => {
      const { columns: [a, b] } = await profile('a,b\nNA,N/A\nNaN, \nnull,""\nNULL,\nnone,-\n')
      assert.deepEqual([a!.missing, a!.count, b!.missing, b!.count], [4, 1, 4, 1])
    })

    it('are the texts that the caller names, and empty fields still', async () => {
      const found = await column(['NA', '-', '""', '5'], { missing: ['-'] })
      assert.deepEqual([found.missing, found.count, found.kinds.string], [2, 2, 1])
    })
  })

  describe('syntax', () => {
    it('a byte order mark is no part of the first name', async () => {
      assert.deepEqual(names(await profile('\uFEFFid,name\n1,a\n')), ['id', 'name'])
    })

    it('quoted fields hold delimiters, quotes and line ends', async () => {
      const { rows, columns: [note] } = await profile('note,n\n"a, ""b""\nc",1\n"a, ""b""\nc",2\n')
      assert.equal(rows, 2)
      assert.deepEqual(note!.top, [{ value: 'a, "b"\nc', count: 2 }])
    })

    for (const [name, end] of [['LF', '\n'], ['CRLF', '\r\n'], ['CR', '\r']] as const) {
      it(`${name} ends lines, with or without one after the last`, async () => {
        for (const csv of [`a,b${end}1,2${end}3,4`, `a,b${end}1,2${end}3,4${end}`]) {
          const { rows, columns: [, b] } = await profile(csv)
          assert.deepEqual([rows, b!.type, b!.max], [2, 'integer', 4])
        }
      })
    }

    it('line ends may be mixed, and blank lines do not count', async () => {
      assert.equal((await profile('\na,b\r\n1,2\n\n3,4\r\n  \n5,6\r')).rows, 3)
    })

    it('spaces around fields and quotes are no part of a value', async () => {
      const { columns: [a, b] } = await profile('a , "b"\n 1 , "x" \n2 ,"  x "\n')
      assert.deepEqual([a!.name, a!.type, b!.name, b!.distinct], ['a', 'integer', 'b', 1])
    })

    it('a header alone is a profile of no rows', async () => {
      const { rows, columns } = await profile('a,b\n')
      assert.deepEqual([rows, columns.map(({ type }) => type)], [0, ['empty', 'empty']])
    })

    it('repeated names get a number that no other column has, empty ones their position', async () => {
      assert.deepEqual(names(await profile('id,id,id_2,,id\n1,2,3,4,5\n')), ['id', 'id_2', 'id_2_2', 'column_4', 'id_3'])
    })

    it('without a header the first record is a row', async () => {
      const found = await profile('1,2\n3,4\n', { header: false })
      assert.deepEqual([found.rows, names(found), found.columns[0]!.min], [2, ['column_1', 'column_2'], 1])
    })

    it('names such as __proto__ are ordinary', async () => {
      assert.deepEqual(names(await profile('__proto__,constructor\n1,2\n')), ['__proto__', 'constructor'])
    })
  })

  describe('delimiter', () => {
    const cases: [delimiter: string, why: string, csv: string][] = [
      [';', 'decimal commas notwithstanding', 'a;b\n1,5;2,5\n3,5;4,5\n'],
      ['\t', 'with commas in the text', 'a\tb\nx, y\tz\nw\tv, u, t\n'],
      ['|', 'alone', 'a|b\n1|2\n'],
      [',', 'where the other stands in quotes', 'a,b\n"x;y;z",1\n"u;v;w",2\n'],
      [',', 'in a single column', 'a\n1\n2\n'],
      ['\t', 'with empty fields', 'a\tb\n\t\n1\t\n']
    ]
    for (const [delimiter, why, csv] of cases) {
      it(`${JSON.stringify(delimiter)} is detected ${why}`, async () => assert.equal((await profile(csv)).delimiter, delimiter))
    }

    it('is the one that the caller gives', async () => {
      assert.deepEqual(names(await profile('a:b,c\n1:2,3\n', { delimiter: ':' })), ['a', 'b,c'])
    })

    for (const delimiter of ['', ',,', '"', '\n']) {
      it(`${JSON.stringify(delimiter)} is refused as one`, () => {
        assert.throws(() => registry.invoke({ toolId: 'profile_csv', input: { csv: 'a', delimiter } }), { code: 'invalid_input' })
      })
    }
  })

  describe('malformed text', () => {
    const cases: [why: string, csv: string, message: RegExp][] = [
      ['a record too long', 'a,b\n1,2\n1,2,3\n', /line 3: 3, in the first record: 2/],
      ['a record too short, after a quoted CRLF', 'a,b\r\n"x\r\ny",2\r\n1\r\n', /line 4: 1, in the first record: 2/],
      ['a quote that is never closed, where it opens', 'a,b\n\n1,2\n3,"4\n5,6\n7,8\n', /opens on line 4 is never closed/],
      ['a quote inside a field', 'a,b\n1,5" pipe\n', /line 2 has a quote inside/],
      ['text after a closing quote', 'a,b\n1,"2"3\n', /line 2 has text after a closing quote/],
      ['no text at all', '', /is empty/],
      ['only a byte order mark and blanks', '\uFEFF\n  \n', /is empty/],
      ['more columns than are profiled', ','.repeat(1_000), /1001 columns.*at most 1000.*delimiter/]
    ]
    for (const [why, csv, message] of cases) {
      it(`${why} is told`, () => assert.rejects(profile(csv), { message }))
    }

    it('far into a long text is told by its line too', () => {
      return assert.rejects(profile(`a,b\n${'1,2\n'.repeat(50_000)}3\n`), { message: /line 50002: 1/ })
    })
  })

  describe('the text for a model', () => {
    it('has a line on the whole and a line a column', async () => {
      const { text, details, structuredContent } = await run('id,city,paid\n1,Oslo,10.5\n2,Oslo,NA\n3,Rome,4\n')
      assert.deepEqual(text.split('\n'), [
        '3 rows, 3 columns, delimiter ","',
        '- "id" (integer): 3 values, 0 missing, 3 distinct; 1 to 3; mean 2, median 2',
        '- "city" (string): 3 values, 0 missing, 2 distinct; "Oslo" to "Rome"; most often "Oslo" (2 times)',
        '- "paid" (number): 2 values, 1 missing, 2 distinct; 4 to 10.5; mean 7.25, median 7.25'
      ])
      assert.deepEqual(details, { delimiterDetected: true, missing: ['NA', 'N/A', 'NaN', 'null', 'NULL', ''], rowsPerUpdate: 4000 })
      assert.equal((structuredContent as CsvProfile).rows, 3)
    })

    it('stays short for many columns and for long values', async () => {
      const wide = Array.from({ length: 500 }, (_, index) => `c${index}`).join(',')
      const { text } = await run(`${wide}\n${Array(500).fill('x'.repeat(1_000)).join(',')}\n`)
      assert.equal(text.split('\n').length, 22)
      assert.match(text, /\nand 480 more columns$/)
      assert.ok(text.length < 4_000)
    })
  })

  describe('a long text', () => {
    const ROWS = 100_000
    // 7,919 shares no factor with 100,000: every number below that comes once, in no order.
    const lines = Array.from({ length: ROWS }, (_, row) => `${(row * 7_919) % ROWS},user-${row},${row % 4 === 0 ? 'NA' : row % 8}`)
    const csv = `shuffled,key,group\n${lines.join('\n')}\n`

    it('is profiled exactly', async () => {
      const { rows, columns: [shuffled, key, group] } = await profile(csv)
      assert.equal(rows, ROWS)
      assert.deepEqual([shuffled!.min, shuffled!.max, shuffled!.distinct, shuffled!.top], [0, 99_999, ROWS, []])
      assert.equal(shuffled!.mean, 49_999.5)
      near(shuffled!.stddev, Math.sqrt(ROWS * (ROWS + 1) / 12))
      near(shuffled!.quantiles!.p05, 4_999.95)
      near(shuffled!.quantiles!.p75, 74_999.25)
      assert.deepEqual([key!.distinct, key!.distinctCapped], [ROWS, false])
      assert.deepEqual([group!.missing, group!.count, group!.distinct], [25_000, 75_000, 6])
      assert.deepEqual(group!.top, [1, 2, 3, 5, 6].map((value) => ({ value, count: 12_500 })))
    })

    it('is told of every 4,000 rows', async () => {
      const updates: any[] = []
      await run(csv, { onUpdate: (partial) => updates.push(partial) })
      assert.deepEqual(updates.map(({ details }) => details.rows), Array.from({ length: 25 }, (_, index) => (index + 1) * 4_000))
      assert.deepEqual(updates[2], { content: [{ type: 'text', text: '12,000 rows read' }], details: { rows: 12_000 } })
    })

    it('leaves the event loop its turns', async () => {
      let turns = 0
      let running = true
      const turn = () => { turns++; if (running) setImmediate(turn) }
      setImmediate(turn)
      await run(csv)
      running = false
      assert.ok(turns >= csv.length / (32 * 1024), `${turns} turns`)
    })

    it('is left where the call is aborted, with the reason', async () => {
      const abort = new AbortController()
      const reason = new Error('the caller hung up')
      const seen: number[] = []
      const running = run(csv, {
        signal: abort.signal,
        onUpdate: ({ details }) => {
          seen.push(details.rows)
          setImmediate(() => abort.abort(reason)) // from outside, as a hang-up comes
        }
      })
      await assert.rejects(running, reason)
      assert.ok(seen.at(-1)! < ROWS / 2, `aborted after ${seen.at(-1)} rows`)
      const told = seen.length
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(seen.length, told)
    })

    it('is not begun where the call is aborted already', async () => {
      await assert.rejects(run(csv, { signal: AbortSignal.abort(new Error('too late')) }), { message: 'too late' })
    })

    it('characters of many bytes survive the cuts between slices', async () => {
      const found = await column(Array(20_000).fill('日本語😀é'))
      assert.deepEqual([found.distinct, found.min, found.max], [1, '日本語😀é', '日本語😀é'])
    })

    it('distinct texts past the cap are told as such, numbers are counted on', async () => {
      const numbers = Array.from({ length: ROWS + 1 }, (_, row) => String(row))
      const integers = await column(numbers)
      assert.deepEqual([integers.distinct, integers.distinctCapped], [ROWS + 1, false])
      const texts = await column(numbers.map((number) => `n${number}`))
      assert.deepEqual([texts.distinct, texts.distinctCapped, texts.top], [ROWS, true, null])
    })
  })
})

function near (actual: number | null, expected: number) {
  assert.ok(actual !== null && Math.abs(actual - expected) <= Math.abs(expected) * 1e-12, `${actual} is not ${expected}`)
}
