const form = /^(\d{4})-(\d{2})-(\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** Epoch milliseconds of a time in ISO 8601 with its offset, or of the first moment of a date, in UTC; undefined for what is neither. */
export function instantOf (text: string): number | undefined {
  const parts = form.exec(text)
  if (parts === null) return undefined
  const [year, month, day] = parts.slice(1, 4).map(Number) as [number, number, number]
  // The engine takes the 31st of any month for a day.
  if (day > new Date(Date.UTC(year, month, 0)).getUTCDate()) return undefined
  const epochMs = Date.parse(text)
  return Number.isNaN(epochMs) ? undefined : epochMs
}
