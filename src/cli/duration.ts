/** A duration for people. */
export function duration (ms: number): string {
  if (ms < 1) return 'less than 1 ms'
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
}
