import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import ts from 'typescript'
import { root } from './markdown.ts'

/** What a program of a page may import, and where its types are: our own entries, and what stands for others' packages. */
const types = {
  toolgate: 'src/index.ts',
  'toolgate/client': 'src/client.ts',
  '@jangts/agent-core/tools': 'src/index.ts',
  '@jangts/agent-core/engine': 'test/client/registry/engine.ts'
}

/** Puts the package's own dependencies beside the files of a folder, as an author who wants types has them. */
export async function installDependencies (folder: string): Promise<void> {
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
}

/** What `tsc`, with this package's own options, says of each file. */
export function typeCheck (folder: string, files: string[]): Map<string, string[]> {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { rootDir, outDir, ...own } = config.compilerOptions
  const paths = Object.fromEntries(Object.entries(types).map(([name, file]) => [name, [join(root, file)]]))
  const { options } = ts.convertCompilerOptionsFromJson({ ...own, paths }, folder)
  const program = ts.createProgram(files.map((file) => join(folder, file)), { ...options, typeRoots: [join(root, 'node_modules/@types')] })
  return new Map(files.map((file) => {
    const source = program.getSourceFile(join(folder, file))!
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
    return [file, found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))]
  }))
}
