import { Option, type Command } from 'commander'
import type { ClientError, EventsFilter, SubscriptionItem } from '../client.ts'
import { asConsumer, commonHelp, consume, type Consumer, type ConsumerOptions } from './consumer.ts'
import { duration } from './duration.ts'
import { eventLine } from './event-line.ts'
import { Interruption } from './exit-codes.ts'
import { wholeNumber } from './whole-number.ts'

type EventType = 'start' | 'update' | 'end'
type Status = 'running' | 'succeeded' | 'failed' | 'cancelled'

interface EventsCommandOptions extends ConsumerOptions {
  tool?: string[]
  type?: EventType[]
  status?: Status[]
  kind?: string[]
  runId?: string[]
  invocationId?: string[]
  since?: string
  view?: 'full' | 'receipt'
  count?: number
}

export function addEvents (program: Command): void {
  asConsumer(program.command('events'))
    .description('Follow what happens at a gateway: a line for each event, until Ctrl-C.')
    .option('--tool <ids...>', 'of these tools')
    .addOption(new Option('--type <types...>', 'of these types').choices(['start', 'update', 'end']))
    .addOption(new Option('--status <statuses...>', 'of these statuses; starts and updates are running').choices(['running', 'succeeded', 'failed', 'cancelled']))
    .option('--kind <kinds...>', 'of tools of these kinds')
    .option('--run-id <ids...>', 'of these runs')
    .option('--invocation-id <ids...>', 'of these calls')
    .option('--since <id>', 'what came after the event with this id, or earliest for all that is kept (default: from now on)')
    .addOption(new Option('--view <view>', 'receipt leaves out inputs, progress and results').choices(['full', 'receipt']))
    .option('--count <number>', 'end after so many', wholeNumber)
    .addHelpText('after', `${commonHelp}
Several values of one option widen, different options narrow: of any of these tools, and
of any of these types.
As JSON, each line is an event with its id as eventId. Where events are gone that were
asked for, a line says so: {"type":"events_lost",…}. A lost connection is taken up again.

Examples:
  toolgate events --tool profile_csv convert_units --type end
  toolgate events --since earliest --count 10
  toolgate events --json | jq 'select(.isError)'`)
    .action((options: EventsCommandOptions) => consume(options, (consumer) => follow(options, consumer)))
}

async function follow (options: EventsCommandOptions, { client, output, signal }: Consumer): Promise<number> {
  const notes = new ConnectionNotes(client.url, (text) => output.note(text))
  const events = client.events({ filter: filterOf(options), view: options.view, lastEventId: options.since, signal, ...notes.listeners })
  let left = options.count ?? Infinity
  for await (const item of events) {
    await (output.isForPeople ? output.text(eventLine(item, output.columns, new Date())) : output.jsonLine(withId(item, events.lastEventId)))
    if (item.type !== 'events_lost' && --left === 0) break
  }
  if (signal.reason instanceof Interruption && events.lastEventId !== undefined) output.note(`--since ${events.lastEventId} goes on from here.`)
  signal.throwIfAborted()
  return 0
}

function filterOf ({ tool, type, status, kind, runId, invocationId }: EventsCommandOptions): EventsFilter {
  return { toolId: tool, type: type?.map((each) => `tool_execution_${each}` as const), status, kind, runId, invocationId }
}

function withId (item: SubscriptionItem, eventId: string | undefined): object {
  return item.type === 'events_lost' ? item : { eventId, ...item }
}

/** What a person should know of the connection, once each time that it changes. */
class ConnectionNotes {
  readonly #url: string
  readonly #note: (text: string) => void
  #state: 'new' | 'open' | 'lost' = 'new'

  constructor (url: string, note: (text: string) => void) {
    this.#url = url
    this.#note = note
  }

  get listeners (): { onOpen: () => void, onReconnect: (reason: ClientError | undefined, delayMs: number) => void } {
    return {
      onOpen: () => {
        this.#note(this.#state === 'new' ? `Following the events of ${this.#url}.` : 'The connection stands again.')
        this.#state = 'open'
      },
      onReconnect: (reason, delayMs) => {
        if (this.#state === 'open') this.#note(`${reason === undefined ? 'The gateway ended the stream.' : reason.message} Trying again, first in ${duration(delayMs)}.`)
        this.#state = 'lost'
      }
    }
  }
}
