/**
 * A registry tool: a plain function between two parsers. `execute` is synchronous, so `registry.invoke` is too.
 * What it returns becomes `structuredContent`, and the model's text as well.
 */
export const getStatus = {
  id: 'get_status',
  kind: 'read',
  description: 'Tells that the service is running, and for how long. Takes an empty object.',

  /** Refuses by throwing; what it returns is what `execute` gets. */
  parseInput (value: unknown): Record<string, never> {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('The input must be an object, e.g. {}')
    return {}
  },

  execute (): string {
    return `The service is running, for ${Math.floor(process.uptime())} s now.`
  },

  parseOutput (value: unknown): string {
    if (typeof value !== 'string') throw new TypeError('The status must be a string')
    return value
  }
}
