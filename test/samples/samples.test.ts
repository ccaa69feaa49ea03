import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { convertUnits, describeMeasurements, getStatus, inspectLesson, profileCsv, readNotes, takeNote } from './load.ts'

const samples = [inspectLesson, getStatus, profileCsv, convertUnits, describeMeasurements, takeNote, readNotes]

describe('sample tools', () => {
  it('one registry takes all three shapes', () => {
    const registry = new ToolRegistry()
    for (const tool of samples) registry.register(tool)
    assert.deepEqual([...registry.seal()].map(({ descriptor }) => [descriptor.id, descriptor.kind, descriptor.inputMode]), [
      ['inspect_lesson', 'tool', 'coerce'],
      ['get_status', 'read', 'strict'],
      ['profile_csv', 'read', 'strict'],
      ['convert_units', 'read', 'strict'],
      ['describe_measurements', 'read', 'strict'],
      ['take_note', 'write', 'strict'],
      ['read_notes', 'read', 'strict']
    ])
  })

  it('their schemas use nothing that a validator ignores', () => {
    const registry = new ToolRegistry()
    for (const tool of samples) registry.register(tool)
    for (const { descriptor, ignoredKeywords } of registry) assert.deepEqual(ignoredKeywords, [], descriptor.id)
  })

  it('every module of tools/ is among those tested', async () => {
    const files = await readdir(new URL('../../tools/', import.meta.url))
    assert.deepEqual(files.filter((file) => file.endsWith('.ts')).sort(), [
      'convert-units.ts', 'describe-measurements.ts', 'get-status.ts', 'inspect-lesson.ts', 'profile-csv.ts', 'take-note.ts'
    ])
  })
})
