import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { blocksOf, root } from './markdown.ts'

/** A folder outside the package, with nothing installed, that goes when the tests are over. */
export async function emptyFolder (): Promise<{ folder: string, remove: () => Promise<void> }> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'toolgate-docs-')))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }\n')
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) }
}

/** Where the pages have their gateway. */
export const documentedUrl = 'http://127.0.0.1:8080'

/** Writes the code blocks of a page that name a file into `folder`, with `url` for the gateway's address. */
export async function writeExamples (page: string, folder: string, url = documentedUrl): Promise<string[]> {
  const files: string[] = []
  for (const { file, text } of await blocksOf(page)) {
    if (file === undefined) continue
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), text.replaceAll(documentedUrl, url))
    files.push(file)
  }
  return files
}

/** Arguments for a Node that resolves `toolgate` in `folder` as the gateway does it for the tools it serves. */
export function resolvingIn (folder: string): string[] {
  const module = pathToFileURL(join(root, 'src/tools/sources/module-resolution.ts')).href
  const code = `import { resolveForToolsIn } from ${JSON.stringify(module)}; resolveForToolsIn(${JSON.stringify(folder)})`
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`]
}

/** This process's environment, without what would configure a gateway or a test runner. */
export function plainEnvironment (): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TOOLGATE_|NODE_TEST_CONTEXT$|NODE_OPTIONS$)/.test(name)))
}
