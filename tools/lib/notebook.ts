import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

export const Note = Type.Object({
  takenAtMs: Type.Integer({ minimum: 0, maximum: 8.64e15, description: 'When it was taken, epoch milliseconds' }),
  text: Type.String(),
  tags: Type.Array(Type.String())
}, { additionalProperties: false })
export type Note = Static<typeof Note>

const Notebook = Type.Object({ notes: Type.Array(Note) }, { additionalProperties: false })

/** The file is there and holds something else. */
export class NotANotebookError extends Error {}

/** Looked up for each call, and never told to a caller. */
function notebookFile (): string {
  return process.env.NOTES_FILE || 'data/notes.json'
}

/**
 * All notes, oldest first; none where there is no file.
 * @throws {NotANotebookError} or what the file system says
 */
export async function readNotebook (signal: AbortSignal): Promise<Note[]> {
  let text: string
  try {
    text = await readFile(notebookFile(), { encoding: 'utf8', signal })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  const notebook = parse(text)
  if (!Value.Check(Notebook, notebook)) throw new NotANotebookError('not a notebook')
  return notebook.notes
}

function parse (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Replaces the whole notebook, or leaves the old one where it cannot: a reader never finds half of it.
 * @param writer names the temporary file: of this writer alone, and fit for a file's name
 */
export async function writeNotebook (notes: readonly Note[], writer: string, signal: AbortSignal): Promise<void> {
  const file = notebookFile()
  const temporary = `${file}.${writer}.tmp`
  signal.throwIfAborted()
  await mkdir(dirname(file), { recursive: true })
  try {
    await writeFile(temporary, `${JSON.stringify({ notes }, undefined, 2)}\n`, { signal, flush: true })
    signal.throwIfAborted()
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
