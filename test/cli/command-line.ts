import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Exit } from '../e2e/cli.ts'
import { within, type Scope } from '../e2e/harness.ts'

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))
const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0

/** Reasons to skip, or false. */
export const withoutTerminals = process.platform === 'linux' && has('script', '--version') ? false : 'no script(1) here, which makes terminals'
export const withoutJq = has('jq', '--version') ? false : 'no jq here'

export interface ShellOptions {
  env?: Record<string, string>
  cwd?: string
  /** A terminal of so many columns in the place of pipes; standard error then comes with standard output. */
  columns?: number
}

/** Commands in a shell, in which `toolgate` is the command line. */
export class Shell {
  readonly child: ChildProcess
  readonly ended: Promise<Exit>
  stdout = ''
  stderr = ''

  constructor (t: Scope, command: string, { env = {}, cwd = tmpdir(), columns }: ShellOptions = {}) {
    const script = `toolgate () { '${process.execPath}' '${cli}' "$@"; }\n${columns === undefined ? '' : `stty cols ${columns}\n`}${command}`
    const [program, args] = columns === undefined ? ['sh', ['-c', script]] : ['script', ['-qfec', script, '/dev/null']]
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TOOLGATE|NODE)_/.test(name)))
    // Its processes are a group, as a terminal's are, so that all of them can be ended.
    this.child = spawn(program, args, { env: { ...own, SHELL: '/bin/sh', TERM: 'xterm', ...env }, cwd, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => { this.stdout += text })
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => { this.stderr += text })
    this.ended = new Promise((resolve) => this.child.once('close', (code, signal) => resolve({ code, signal })))
    t.after(() => this.kill('SIGKILL'))
  }

  kill (signal: NodeJS.Signals): void {
    try {
      process.kill(-this.child.pid!, signal)
    } catch {} // it has ended
  }

  /** Types on the terminal. */
  type (text: string): void {
    this.child.stdin!.write(text)
  }

  /** What a terminal shows at the end: lines, of which each was cleared as the progress of a call clears it. */
  get screen (): string[] {
    return this.stdout.split(/\r?\n/).map((line) => line.split('\r\u001B[2K').at(-1)!.trimEnd())
  }

  /** Every state that the line of progress had. */
  get progress (): string[] {
    return this.stdout.split(/\r?\n/).flatMap((line) => line.split('\r\u001B[2K').slice(1)).filter((state) => state !== '')
  }
}

/** Runs commands to their end. */
export async function shell (t: Scope, command: string, options: ShellOptions = {}): Promise<Shell & Exit> {
  const running = new Shell(t, command, options)
  // Nothing is typed; but a terminal that is closed at once would end what runs in it.
  if (options.columns === undefined) running.child.stdin!.end()
  const exit = await within(running.ended, `the end of ${command}`, 30_000)
  return Object.assign(running, exit)
}
