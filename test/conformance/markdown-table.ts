/** The cells of every table row in a Markdown text, without header rules. */
export function rowsOf (markdown: string): string[][] {
  return markdown.split('\n')
    .filter((line) => line.startsWith('|') && !/^\|[\s|:-]+$/.test(line))
    .map((line) => line.replace(/^\||\|\s*$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim()))
}
