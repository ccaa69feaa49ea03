import { isMainThread } from 'node:worker_threads'

/**
 * `npm test` has this loaded into every process that runs a test file, before the file itself: it lets a witness look at what
 * the gateways of the tests write, and leaves a report in `.evidence/`. No test needs to know of it. `verdict.ts` reads the
 * reports afterwards.
 */
if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  const { witness } = await import('./witness.ts')
  const { watchGateways } = await import('./gateways.ts')
  const { watchPrograms } = await import('./programs.ts')
  watchGateways(witness)
  watchPrograms(witness)
  process.once('exit', () => witness.write(process.argv[1] ?? 'unknown'))
}
