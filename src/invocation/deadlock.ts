import type { Slotted } from './lane.ts'

/**
 * Whether a child call that waits would wait for ever: every slot that it could get is held by a call that stands still
 * for a child call of its own, and each of those is in the same position.
 *
 * A wait can only become endless in the step in which a child call begins to wait, and only together with that call: as
 * long as it can be served, everyone who waits for it can be. So it is enough to ask for that one.
 */
export function isStuck (call: Slotted): boolean {
  const reached = new Map<Slotted, Slotted[][]>()
  collect(call, reached)
  // Starts from all being stuck, and takes out whoever is not until nothing changes.
  let isChanging = true
  while (isChanging) {
    isChanging = false
    for (const [waiting, holders] of reached) {
      const canEnd = (held: Slotted[]) => held.every((other) => !reached.has(other))
      if (!holders.some(canEnd)) continue
      reached.delete(waiting)
      isChanging = true
    }
  }
  return reached.has(call)
}

/** Every waiting call that `call` waits for, however far off; for each, what each holder of a slot there waits for. */
function collect (call: Slotted, reached: Map<Slotted, Slotted[][]>): void {
  if (reached.has(call)) return
  const waits = [...call.lane.holders].map(waitsOf)
  reached.set(call, waits)
  // Where one holder waits for nothing, this wait has an end, whatever the others do.
  if (waits.some((held) => held.length === 0)) return
  for (const held of waits) for (const other of held) collect(other, reached)
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
