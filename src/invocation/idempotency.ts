import { createHash, createHmac } from 'node:crypto'
import { canonicalJson } from '../json/canonical.ts'
import { GatewayError } from '../errors.ts'
import { chain, type Earlier, type KeyClaim, type Maybe, type Store } from '../store/store.ts'
import { inputText, type CallRequest, type KeyedRequest } from './arrival.ts'
import type { Call } from './call.ts'
import { Replay } from './replay.ts'

/** How long a key stands for the call that it was first sent with, milliseconds. */
export const KEY_LIFE_MS = 86_400_000

/**
 * What a call claims by its key: apart for each caller and tool.
 *
 * Neither the key nor the input is in it. The fingerprint takes the key as its secret, so that who reads the store cannot
 * find out a short input by trying.
 *
 * @param text JSON text of the input, as it was sent
 */
export function claimOf (key: string, principalId: string, toolId: string, text: string, nowMs: number): KeyClaim {
  return {
    scope: createHash('sha256').update(JSON.stringify([principalId, toolId, key])).digest('hex'),
    fingerprint: createHmac('sha256', key).update(canonicalJson(JSON.parse(text))).digest('hex'),
    untilMs: nowMs + KEY_LIFE_MS
  }
}

interface RepeatsOptions {
  store: Store
  limits: { maxJsonDepth: number }
}

/** Calls that are sent again, by their idempotency keys. */
export class Repeats {
  readonly #options: RepeatsOptions
  readonly #find: (invocationId: string) => Call | undefined

  /** @param find gives a call that has not settled */
  constructor (options: RepeatsOptions, find: (invocationId: string) => Call | undefined) {
    this.#options = options
    this.#find = find
  }

  /** What a call claims that has just arrived; undefined where it was sent without a key. */
  claim (request: CallRequest | KeyedRequest, { principal, toolId, inputText, start }: Call): KeyClaim | undefined {
    const key = keyOf(request)
    return key === undefined ? undefined : claimOf(key, principal.id, toolId, inputText, start.startedAtMs)
  }

  /**
   * What answers a call whose key is held.
   * @throws {GatewayError} `idempotency_key_reused`
   */
  replay ({ call, fingerprint }: Earlier, claim: KeyClaim): Replay {
    if (fingerprint !== claim.fingerprint) {
      throw new GatewayError('idempotency_key_reused', 'This Idempotency-Key was sent to this tool before, with another input. A new call needs a new key.')
    }
    return new Replay(call, this.#find(call.start.invocationId), this.#options.store)
  }

  /** What answers one that would be refused where it were new: there is nothing to be begun, so there is room for it. */
  replayRefused (request: CallRequest | KeyedRequest, refusal: unknown): Maybe<Replay> {
    const key = keyOf(request)
    if (key === undefined || !(refusal instanceof GatewayError) || !refusedByState.has(refusal.code)) throw refusal
    const text = inputText(request.input === undefined ? {} : request.input, this.#options.limits.maxJsonDepth)
    const claim = claimOf(key, request.principal.id, request.toolId, text, 0)
    return chain(this.#options.store.holder(claim.scope), (earlier) => {
      if (earlier === undefined) throw refusal
      return this.replay(earlier, claim)
    })
  }
}

/** Refusals for what there is at the moment, not for what is asked. */
const refusedByState: ReadonlySet<string> = new Set(['overloaded', 'shutting_down', 'unknown_tool'])

function keyOf (request: CallRequest | KeyedRequest): string | undefined {
  return 'idempotencyKey' in request ? request.idempotencyKey : undefined
}
