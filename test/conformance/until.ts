import { setImmediate as nextTurn } from 'node:timers/promises'

/** Waits, a turn at a time, until `holds`; fails after `limitMs`, saying what it waited for. */
export async function until (holds: () => boolean | Promise<boolean>, what: string, limitMs = 5000): Promise<void> {
  const deadline = performance.now() + limitMs
  while (!await holds()) {
    if (performance.now() > deadline) throw new Error(`waited ${limitMs} ms in vain for: ${what}`)
    await nextTurn()
  }
}

/** Lets everything that is under way in this process take `turns` turns of the event loop. */
export async function turns (count = 3): Promise<void> {
  for (let turn = 0; turn < count; turn++) await nextTurn()
}
