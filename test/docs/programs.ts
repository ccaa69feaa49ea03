import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { documentedUrl, plainEnvironment, resolvingIn } from './examples.ts'
import { blocksOf, pages, type Block } from './markdown.ts'

/**
 * Programs of the pages: blocks of code that name their file, with what they print in a `text` block directly below.
 * They are run in the order of the page, in a folder with all its files, against one gateway that serves the page's
 * `my-tools/` and the samples. In a page `http://127.0.0.1:8080` is the gateway, and `…` stands for what is left out.
 */
export type Program = Block & { file: string, prints: string }

export async function programsOf (page: string): Promise<Program[]> {
  return (await blocksOf(page)).filter((block): block is Program => block.file !== undefined && block.prints !== undefined)
}

/** Every page that has one. */
export const pagesWithPrograms: readonly string[] = await Promise.all(pages.map(async (page) => (await programsOf(page)).length > 0 ? [page] : [])).then((found) => found.flat())

export interface Ran {
  status: number | null
  stdout: string
  stderr: string
}

/** Runs a file of `folder` to its end, in which `toolgate` and `toolgate/client` are found as if they were installed. */
export async function runFile (folder: string, file: string): Promise<Ran> {
  const child = spawn(process.execPath, [...resolvingIn(folder), file], {
    cwd: folder, env: plainEnvironment(), stdio: ['ignore', 'pipe', 'pipe'], timeout: 30_000, killSignal: 'SIGKILL'
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => { stdout += chunk })
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => { stderr += chunk })
  const [status] = await once(child, 'close') as [number | null]
  return { status, stdout, stderr }
}

/** What is to be printed, to the letter, but for `…`. */
export function printingOf ({ prints }: Program, url: string): RegExp {
  const pieces = prints.trimEnd().replaceAll(documentedUrl, url).split('…').map((piece) => piece.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return new RegExp(`^${pieces.join('[^]*?')}\\n$`)
}
