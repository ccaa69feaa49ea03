import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../', import.meta.url))

/** Every page for people, by its path from the root. */
export const pages: readonly string[] = [
  'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md',
  ...(await readdir(join(root, 'docs'))).filter((name) => name.endsWith('.md')).sort().map((name) => `docs/${name}`)
]

export interface Block {
  /** `README.md:12`, for names of tests. */
  place: string
  language: string
  /** What follows the language on the opening line. */
  info: string
  text: string
  /** The file that the block's first line names, as in `// my-tools/count-words.ts`. */
  file: string | undefined
  /** What a block of code prints, where that stands directly below it: the `text` block that follows with nothing between. */
  prints: string | undefined
}

export function textOf (page: string): Promise<string> {
  return readFile(join(root, page), 'utf8')
}

/** The fenced blocks of a page, in order. */
export async function blocksOf (page: string): Promise<Block[]> {
  const markdown = await textOf(page)
  return [...markdown.matchAll(/^```(\w*)[ \t]*(.*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    place: `${page}:${markdown.slice(0, match.index).split('\n').length}`,
    language: match[1]!,
    info: match[2]!,
    text: match[3]!,
    file: /^\/\/ ([\w./-]+\.(?:ts|js))\n/.exec(match[3]!)?.[1],
    prints: /^\s*\n```text[ \t]*\n([\s\S]*?)(?<=\n)```(?=\n|$)/.exec(markdown.slice(match.index + match[0].length))?.[1]
  }))
}
