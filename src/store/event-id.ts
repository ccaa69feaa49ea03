/** Event ids are `epoch-sequence`: which opening of which log, and the place in it. */
const shape = /^([0-9a-f]{16})-(0|[1-9][0-9]{0,15})$/

export function formatEventId (epoch: string, sequence: number): string {
  return `${epoch}-${sequence}`
}

export function parseEventId (id: string): { epoch: string, sequence: number } | undefined {
  const match = shape.exec(id)
  return match === null ? undefined : { epoch: match[1]!, sequence: Number(match[2]) }
}
