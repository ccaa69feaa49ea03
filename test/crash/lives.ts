import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cli } from '../e2e/cli.ts'
import { waitFor, within, type Scope } from '../e2e/harness.ts'
import type { Target } from './target.ts'
import { toolsFolder } from './toolbox.ts'

const PATIENCE_MS = 60_000

/** When a gateway is killed. */
export type Moment =
  /** After a number of answers. */
  | 'under load'
  /** As it takes up what it found, or just before or after. */
  | 'recovering'
  /** As soon as it answers, or a little later. */
  | 'answering'
  /** Anywhere between its start and its first answer. */
  | 'starting'

interface LivesOptions {
  folder: string
  store: string
  target: Target
  random: () => number
  /** How many answers there have been. */
  answers: () => number
}

/** The program, started again and again. */
export class Lives {
  /** Messages of its log beside those of every start, and how often each came. */
  readonly warnings = new Map<string, number>()
  readonly recovered = { run: 0, settled: 0 }
  /** Kills before it answered. */
  stillborn = 0
  stderr = ''
  program!: Cli
  readonly #t: Scope
  readonly #options: LivesOptions
  #startTookMs = 500

  constructor (t: Scope, options: LivesOptions) {
    this.#t = t
    this.#options = options
  }

  start (): void {
    const { folder, store, target } = this.#options
    const looking = target.started()
    this.program = new Cli(this.#t, ['serve', '--port', new URL(target.url).port, '--tools', toolsFolder], {
      CRASH_RUNS: folder,
      CRASH_LIFE: String(target.life),
      TOOLGATE_STORE: store,
      TOOLGATE_LOG_LEVEL: 'warn',
      TOOLGATE_HEARTBEAT_MS: '1000',
      // However often it is killed, what may be run again is.
      TOOLGATE_MAX_ATTEMPTS: '1000'
    }, folder)
    const began = performance.now()
    void looking.then(() => { if (target.isUp) this.#startTookMs = performance.now() - began })
  }

  async live (moment: Moment): Promise<void> {
    const { target } = this.#options
    this.start()
    await this.#wait(moment)
    if (!target.isUp) this.stillborn++
    target.killed()
    this.program.kill('SIGKILL')
    const { code, signal } = await this.program.exited
    this.#readLog()
    if (signal !== 'SIGKILL') throw new Error(`life ${target.life} ended by itself (${code}): ${this.program.stderr}${this.program.stdout}`)
  }

  /** Has it end by itself. */
  async end (): Promise<{ code: number | null, signal: NodeJS.Signals | null }> {
    this.#options.target.killed()
    this.program.kill('SIGTERM')
    const exit = await within(this.program.exited, 'the end after SIGTERM', PATIENCE_MS)
    this.#readLog()
    return exit
  }

  /** Resolves when it answers. */
  async ready (): Promise<void> {
    await this.#until(() => this.#options.target.isUp, 'it to answer')
  }

  /** Resolves when there were so many more answers. */
  async answered (count: number): Promise<void> {
    const goal = this.#options.answers() + count
    await this.#until(() => this.#options.answers() >= goal, `${count} answers`)
  }

  async #wait (moment: Moment): Promise<void> {
    const { random, target, folder } = this.#options
    if (moment === 'starting') return await sleep(random() * this.#startTookMs)
    if (moment === 'recovering') {
      await this.#until(() => hasLoaded(folder, target.life), 'its tools to be loaded')
      return await sleep(random() * 30)
    }
    await this.ready()
    if (moment === 'under load') await this.answered(30 + Math.floor(random() * 150))
    await sleep(random() * 50)
  }

  async #until (holds: () => boolean, what: string): Promise<void> {
    await waitFor(() => {
      const { exit, stderr, stdout } = this.program
      if (exit !== undefined) throw new Error(`it ended by itself (${exit.code}): ${stderr}${stdout}`)
      return holds()
    }, `${what}, in life ${this.#options.target.life}`, PATIENCE_MS)
  }

  #readLog (): void {
    this.stderr += this.program.stderr
    for (const line of this.program.stdout.split('\n')) {
      // The last line may have been cut short.
      if (!line.endsWith('}')) continue
      const { level, msg, run, settled } = JSON.parse(line)
      if (msg === 'calls were found unsettled') {
        this.recovered.run += run
        this.recovered.settled += settled
      } else if (level >= 40) {
        this.warnings.set(line, (this.warnings.get(line) ?? 0) + 1)
      }
    }
  }
}

function hasLoaded (folder: string, life: number): boolean {
  try {
    return readFileSync(join(folder, 'loaded'), 'utf8').split('\n').includes(String(life))
  } catch {
    return false // nothing has, ever
  }
}
