import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitFor, within, type Scope } from './harness.ts'

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** The program as a process of its own. */
export class Cli {
  readonly child: ChildProcess
  readonly exited: Promise<Exit>
  exit: Exit | undefined
  stdout = ''
  stderr = ''

  constructor (t: Scope, args: string[], env: Record<string, string>, cwd: string) {
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TOOLGATE_') && !name.startsWith('NODE_')))
    // A store in memory where a test says nothing else, as many run in one folder.
    this.child = spawn(process.execPath, [cli, ...args], { env: { ...own, TOOLGATE_STORE: 'memory', ...env }, cwd, stdio: ['ignore', 'pipe', 'pipe'] })
    this.child.stdout!.on('data', (chunk) => { this.stdout += chunk })
    this.child.stderr!.on('data', (chunk) => { this.stderr += chunk })
    this.exited = new Promise((resolve) => this.child.once('close', (code, signal) => {
      this.exit = { code, signal }
      resolve(this.exit)
    }))
    t.after(async () => {
      this.child.kill('SIGKILL')
      await this.exited
    })
  }

  /** Log lines, parsed. */
  get log (): any[] {
    return this.stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
  }

  get url (): string {
    return this.log.map(({ msg }) => /^Server listening at (\S+)$/.exec(msg)?.[1]).find((url) => url !== undefined)!
  }

  get port (): number {
    return Number(new URL(this.url).port)
  }

  kill (signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }
}

/** Runs the program to its end. */
export async function runCli (t: Scope, args: string[], env: Record<string, string> = {}, cwd: string = tmpdir()): Promise<Cli> {
  const program = new Cli(t, args, env, cwd)
  await within(program.exited, `the end of toolgate ${args.join(' ')}`, 30_000)
  return program
}

/** Runs `serve` on a free port until it is ready. */
export async function startCli (t: Scope, args: string[], env: Record<string, string> = {}, cwd: string = tmpdir()): Promise<Cli> {
  const program = new Cli(t, ['serve', '--port', '0', ...args], env, cwd)
  await waitFor(() => {
    if (program.exit !== undefined) throw new Error(`toolgate ended (${program.exit.code}): ${program.stderr}${program.stdout}`)
    return program.log.some(({ msg }) => msg === 'toolgate is ready')
  }, 'toolgate to be ready', 30_000)
  return program
}

/** A directory outside of the package with these files in it. */
export async function directoryOf (t: Scope, files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'toolgate-test-'))
  t.after(() => rm(directory, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true })
    await writeFile(join(directory, name), text)
  }
  return directory
}

/** A tool module: waits for as long as its input says, and tells of the abort. */
export const sleeper = `
import { setTimeout as sleep } from 'node:timers/promises'
export default {
  id: 'sleep', description: 'Sleeps.', kind: 'test', parameters: {},
  async execute (toolCallId, { ms = 0 }, signal) {
    await sleep(ms, undefined, { signal })
    return { structuredContent: ms }
  }
}
`
