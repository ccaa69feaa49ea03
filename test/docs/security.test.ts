import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root, textOf } from './markdown.ts'

const rows = [...(await textOf('SECURITY.md')).matchAll(/^\| (.+?) \| (.+?) \| `(test\/[^`]+)`(?:: (.+?))? \|$/gm)]

describe('SECURITY.md', () => {
  it('has threats', () => {
    assert.ok(rows.length > 25, `${rows.length} rows`)
  })

  for (const [, threat, , file, title] of rows) {
    it(`has a test for: ${threat}`, async () => {
      const text = await readFile(join(root, file!), 'utf8')
      // A title may be put together for each of many cases.
      for (const part of title?.split('…') ?? []) assert.ok(text.includes(part) || text.includes(part.replaceAll("'", "\\'")), `${file} has no ${part}`)
    })
  }
})
