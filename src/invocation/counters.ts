/** What the gateway counted since it started. */
export interface InvokerCounters {
  updatesDropped: number
  updatesInvalid: number
  outputWarnings: number
  errorSchemaMismatches: number
  /** Calls that found the line before their tool full. */
  overloaded: number
  /** Calls that went on although they were stopped, and how many of them lost their slot for it. */
  signalsIgnored: number
  slotsGivenAway: number
}

export function createCounters (): InvokerCounters {
  return {
    updatesDropped: 0,
    updatesInvalid: 0,
    outputWarnings: 0,
    errorSchemaMismatches: 0,
    overloaded: 0,
    signalsIgnored: 0,
    slotsGivenAway: 0
  }
}
