export interface Statistics {
  min: number
  max: number
  mean: number
  /** Of a sample (n - 1); null for a single number. */
  stddev: number | null
  quantiles: { p05: number, p25: number, p50: number, p75: number, p95: number }
  /** How often each different number comes, in rising order. */
  runs: Map<number, number>
}

/** @param numbers at least one; finite, and small enough that the sum of their squares is too */
export function statisticsOf (numbers: readonly number[]): Statistics {
  const sorted = Float64Array.from(numbers).sort()
  const mean = meanOf(sorted)
  const squares = sorted.reduce((sum, number) => sum + (number - mean) ** 2, 0)
  return {
    min: sorted[0]!,
    max: sorted.at(-1)!,
    mean,
    stddev: sorted.length < 2 ? null : Math.sqrt(squares / (sorted.length - 1)),
    quantiles: {
      p05: quantile(sorted, 0.05),
      p25: quantile(sorted, 0.25),
      p50: quantile(sorted, 0.5),
      p75: quantile(sorted, 0.75),
      p95: quantile(sorted, 0.95)
    },
    runs: runsOf(sorted)
  }
}

/** The second pass takes back most of what rounding lost in the first. */
function meanOf (numbers: Float64Array): number {
  const rough = numbers.reduce((sum, number) => sum + number, 0) / numbers.length
  return rough + numbers.reduce((sum, number) => sum + (number - rough), 0) / numbers.length
}

function quantile (sorted: Float64Array, share: number): number {
  const place = (sorted.length - 1) * share
  const below = sorted[Math.floor(place)]!
  return below + (sorted[Math.ceil(place)]! - below) * (place - Math.floor(place))
}

function runsOf (sorted: Float64Array): Map<number, number> {
  const runs = new Map<number, number>()
  for (let start = 0, end = 0; start < sorted.length; start = end) {
    while (end < sorted.length && sorted[end] === sorted[start]) end++
    runs.set(sorted[start]!, end - start)
  }
  return runs
}
