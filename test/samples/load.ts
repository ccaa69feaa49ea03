import { registerHooks } from 'node:module'

// What the directory loader does for the tools it serves: `toolgate` is this package's own entry.
const entry = new URL('../../src/index.ts', import.meta.url).href
registerHooks({
  resolve: (specifier, context, next) => next(specifier === 'toolgate' ? entry : specifier, context)
})

export const { default: inspectLesson } = await import('../../tools/inspect-lesson.ts')
export const { getStatus } = await import('../../tools/get-status.ts')
export const { default: profileCsv } = await import('../../tools/profile-csv.ts')
export const { default: convertUnits } = await import('../../tools/convert-units.ts')
export const { takeNote, readNotes } = await import('../../tools/take-note.ts')
export const { default: describeMeasurements } = await import('../../tools/describe-measurements.ts')

/** For calls of `execute` past the registry, which alone carries a signal and updates. */
export const context = {
  invocationId: 'invocation-1',
  spanId: 'span-1',
  principal: { id: 'test' },
  log: { debug () {}, info () {}, warn () {}, error () {} },
  attempt: 1,
  invoke: () => Promise.reject(new Error('no child calls here'))
}
