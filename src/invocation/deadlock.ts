import type { Slotted } from './lane.ts'

/** A slot that a waiting call could get, once `left` more calls that its holder waits for have been served. */
interface Hope {
  readonly waiting: Slotted
  left: number
}

/**
 * Whether a child call that waits would wait for ever: every slot that it could get is held by a call that stands still
 * for a child call of its own, and each of those is in the same position.
 *
 * A wait can only become endless in the step in which a child call begins to wait, and only together with that call: as
 * long as it can be served, everyone who waits for it can be. So it is enough to ask for that one.
 */
export function isStuck (call: Slotted): boolean {
  const { served, hopes } = explore(call)
  // Whoever can be served lets those go on who stand still for it, and so on back to where this began.
  const reached = new Set(served)
  for (const waiting of reached) {
    if (waiting === call) return false
    for (const hope of hopes.get(waiting) ?? []) if (--hope.left === 0) reached.add(hope.waiting)
  }
  return true
}

/** Every waiting call that `call` waits for, however far off: which can be served for sure, and what the others hope for. */
function explore (call: Slotted): { served: Slotted[], hopes: Map<Slotted, Hope[]> } {
  const served: Slotted[] = []
  const hopes = new Map<Slotted, Hope[]>([[call, []]])
  // A map hands out what is added to it meanwhile, too.
  for (const waiting of hopes.keys()) {
    const waits = waitsFor(waiting)
    if (waits === undefined) {
      served.push(waiting)
      continue
    }
    for (const held of waits) {
      const hope: Hope = { waiting, left: held.length }
      for (const other of held) {
        const others = hopes.get(other)
        if (others === undefined) hopes.set(other, [hope])
        else others.push(hope)
      }
    }
  }
  return { served, hopes }
}

/** For each slot that a waiting call could get, the waiting calls before it; undefined where one of them has none. */
function waitsFor ({ lane }: Slotted): Slotted[][] | undefined {
  const waits: Slotted[][] = []
  for (const holder of lane.holders) {
    const held = waitsOf(holder)
    if (held.length === 0) return undefined
    waits.push(held)
  }
  return waits
}

/** The waiting calls without which a slot does not become free: those under its holder, and those that use it meanwhile. */
function waitsOf (holder: Slotted): Slotted[] {
  const waits = waitingUnder(holder)
  if (holder.inner === undefined) return waits
  return [...waits, ...[...holder.inner.children].map(({ call }) => call), ...[...holder.inner.holders].flatMap(waitsOf)]
}

/** The calls under `call` that wait for a slot. */
function waitingUnder (call: Slotted): Slotted[] {
  return [...call.children].flatMap((child) => child.standing === 'waiting' ? [child] : waitingUnder(child))
}
