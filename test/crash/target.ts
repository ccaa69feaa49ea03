import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { send } from '../e2e/harness.ts'

/** The gateway as its callers know it: an address at which it is, or is not at the moment. */
export class Target {
  readonly url: string
  /** Counts the starts. */
  life = 0
  /** The start that does not answer yet. */
  #awaited: number | undefined
  #isUp = false
  #up = Promise.withResolvers<void>()

  constructor (port: number) {
    this.url = `http://127.0.0.1:${port}`
  }

  get isUp (): boolean {
    return this.#isUp
  }

  /** Resolves while it answers. */
  get up (): Promise<void> {
    return this.#up.promise
  }

  /** Looks until it answers, or was killed. */
  async started (): Promise<void> {
    const life = ++this.life
    this.#awaited = life
    while (this.#awaited === life) {
      const isThere = await send(`${this.url}/livez`).then(() => true, () => false)
      if (isThere && this.#awaited === life) {
        this.#awaited = undefined
        this.#isUp = true
        this.#up.resolve()
      } else {
        await sleep(10)
      }
    }
  }

  killed (): void {
    this.#awaited = undefined
    if (!this.#isUp) return
    this.#isUp = false
    this.#up = Promise.withResolvers()
  }
}

/**
 * A port that is free, and stays so while the gateway is down: below those that the system hands out, as it hands them out
 * to connections too, and one that is made to such a port at the wrong moment is a connection to itself.
 */
export async function freePort (random: () => number): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(random() * 12_000)
    if (await isFree(port)) return port
  }
}

function isFree (port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
