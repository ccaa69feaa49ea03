import type { Output, Screen } from './output.ts'
import { plainLine } from './plain-text.ts'
import { cut } from './text-width.ts'

/** Where the progress of a call is shown. */
export interface ProgressDisplay {
  update (text: string): void
  /** Owed before anything else is written. */
  end (): void
}

/** Seldom enough to be read, often enough to look alive, milliseconds. */
const REDRAW_MS = 100
const SECOND_MS = 1000
const USUAL_COLUMNS = 80
const CLEARED = '\r\u001B[2K'

/** One line that is written over on a terminal; elsewhere a line for each update. */
export function openProgress (title: string, output: Output, isDumbTerminal: boolean): ProgressDisplay {
  const { notes } = output
  if (notes.isTTY === true && !isDumbTerminal) return new LiveLine(title, notes)
  return {
    update: (text) => output.note(`${title}: ${plainLine(text)}`),
    end () {}
  }
}

class LiveLine implements ProgressDisplay {
  readonly #title: string
  readonly #screen: Screen
  readonly #startedAt = performance.now()
  readonly #clock: NodeJS.Timeout
  #text = ''
  /** The draw to come, which shows whatever is newest then. */
  #draw: NodeJS.Timeout | undefined

  constructor (title: string, screen: Screen) {
    this.#title = title
    this.#screen = screen
    this.#clock = setInterval(() => this.#show(), SECOND_MS)
    this.#show()
  }

  update (text: string): void {
    this.#text = plainLine(text)
    this.#draw ??= setTimeout(() => this.#show(), REDRAW_MS)
  }

  end (): void {
    clearInterval(this.#clock)
    clearTimeout(this.#draw)
    this.#screen.write(CLEARED)
  }

  #show (): void {
    clearTimeout(this.#draw)
    this.#draw = undefined
    const seconds = Math.floor((performance.now() - this.#startedAt) / SECOND_MS)
    // One column less than there is: some terminals go on to the next line once the last is written.
    this.#screen.write(CLEARED + cut(`${plainLine(this.#title)} ${seconds} s  ${this.#text}`, (this.#screen.columns || USUAL_COLUMNS) - 1))
  }
}
