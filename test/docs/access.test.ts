import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { columns, legend, markdown } from '../access/table.ts'
import { root } from './markdown.ts'

describe('docs/access.md', () => {
  it('shows who is answered what, as the tests of every cell have it', async () => {
    const text = await readFile(join(root, 'docs/access.md'), 'utf8')
    const from = text.indexOf('| Route | ')
    const shown = text.slice(from, text.indexOf('\n\n', from))
    assert.equal(shown, markdown())
  })

  it('says what every column is', async () => {
    const text = await readFile(join(root, 'docs/access.md'), 'utf8')
    for (const column of columns) assert.ok(text.includes(`- **${column}**: ${legend[column]}`), column)
  })
})
