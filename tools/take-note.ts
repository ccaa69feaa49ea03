import { Type, type Static } from '@sinclair/typebox'
import { defineTool, type ToolContext } from 'toolgate'
import { NotANotebookError, Note, readNotebook, writeNotebook } from './lib/notebook.ts'

const MAX_NOTES = 1_000

const closed = { additionalProperties: false } as const
const number = Type.Integer({ minimum: 1, description: 'Place of the note in the notebook: the first is 1' })
const tag = Type.String({ minLength: 1, maxLength: 40 })

const NotebookFailure = Type.Object({
  code: Type.Union([Type.Literal('notebook_full'), Type.Literal('not_a_notebook'), Type.Literal('notebook_unavailable')])
}, closed)

const NumberedNote = Type.Object({ number, ...Note.properties }, closed)

/**
 * A tool that has to run one call at a time. It reads the notebook, adds to it and writes the whole of it back: of two
 * calls at once, both would give their note the same number, and the one that writes first would lose it.
 */
export const takeNote = defineTool({
  id: 'take_note',
  label: 'Take a note',
  description: 'Adds a note to the notebook and tells its number. read_notes reads them.',
  kind: 'write',
  executionMode: 'sequential',
  replay: 'never',
  parameters: Type.Object({
    text: Type.String({ maxLength: 2_000, pattern: '\\S' }),
    tags: Type.Optional(Type.Array(tag, { maxItems: 10, uniqueItems: true }))
  }, closed),
  outputSchema: Type.Object({
    number,
    takenAtMs: Note.properties.takenAtMs,
    remaining: Type.Integer({ minimum: 0, description: 'How many more notes the notebook takes' })
  }, closed),
  errorSchema: NotebookFailure,
  async execute (_toolCallId, { text, tags = [] }, signal, _onUpdate, { invocationId, log }) {
    try {
      const notes = await readNotebook(signal)
      if (notes.length >= MAX_NOTES) return failure('notebook_full', `The notebook is full: it holds ${MAX_NOTES} notes.`)
      const takenAtMs = Date.now()
      const number = notes.push({ takenAtMs, text, tags })
      await writeNotebook(notes, invocationId, signal)
      return {
        content: [{ type: 'text', text: `Taken as note ${number}.` }],
        structuredContent: { number, takenAtMs, remaining: MAX_NOTES - number }
      }
    } catch (error) {
      return failureOf(error, signal, log)
    }
  }
})

/** Needs no turn of its own: the file is replaced in one step, so a call reads the notebook before a note or after it. */
export const readNotes = defineTool({
  id: 'read_notes',
  label: 'Read notes',
  description: 'Reads the notes that take_note took, newest first.',
  kind: 'read',
  replay: 'safe',
  parameters: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
    tag: Type.Optional(Type.String({ ...tag, description: 'Only notes that have this tag' }))
  }, closed),
  outputSchema: Type.Object({
    notes: Type.Array(NumberedNote),
    matching: Type.Integer({ minimum: 0, description: 'How many there are, those past the limit included' })
  }, closed),
  errorSchema: NotebookFailure,
  async execute (_toolCallId, { limit = 20, tag }, signal, _onUpdate, { log }) {
    try {
      const notes = (await readNotebook(signal)).map((note, index) => ({ number: index + 1, ...note }))
      const matching = tag === undefined ? notes : notes.filter(({ tags }) => tags.includes(tag))
      const newest = matching.slice(-limit).reverse()
      return {
        content: [{ type: 'text', text: [`${newest.length} of ${matching.length} notes`, ...newest.map(describe)].join('\n') }],
        structuredContent: { notes: newest, matching: matching.length }
      }
    } catch (error) {
      return failureOf(error, signal, log)
    }
  }
})

function describe ({ number, takenAtMs, text, tags }: Static<typeof NumberedNote>): string {
  return [`${number}. ${new Date(takenAtMs).toISOString()}`, ...tags.map((tag) => `[${tag}]`), text].join(' ')
}

function failureOf (error: unknown, signal: AbortSignal, log: ToolContext['log']) {
  signal.throwIfAborted()
  if (error instanceof NotANotebookError) {
    return failure('not_a_notebook', 'Where the notes are kept there is something else. It was left as it is.')
  }
  // What the file system says names the file. That is for the log; a caller learns that it is not to blame.
  log.error({ err: error }, 'the notebook cannot be used')
  return failure('notebook_unavailable', 'The notebook cannot be read or written. The log says why.')
}

function failure (code: Static<typeof NotebookFailure>['code'], text: string) {
  return { isError: true as const, content: [{ type: 'text' as const, text }], structuredContent: { code } }
}
