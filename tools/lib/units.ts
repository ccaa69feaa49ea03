/** A unit of measure. A reading `x` of it is `(x - zero) * factor` in its dimension's base unit. */
export interface Unit {
  readonly symbol: string
  readonly dimension: string
  readonly factor: number
  /** What the unit reads where the base unit reads 0. */
  readonly zero: number
}

type Row = [symbol: string, factor: number, names: string, zero?: number]

/** By dimension, its base unit first. Names are matched whatever their case; symbols as they are (MB is not Mb). */
const tables: Record<string, Row[]> = {
  length: [
    ['m', 1, 'metre meter'], ['km', 1000, 'kilometre kilometer'], ['cm', 0.01, 'centimetre centimeter'], ['mm', 0.001, 'millimetre millimeter'],
    ['in', 0.0254, 'inch inches'], ['ft', 0.3048, 'foot feet'], ['yd', 0.9144, 'yard'], ['mi', 1609.344, 'mile'], ['nmi', 1852, 'nautical-mile']
  ],
  mass: [
    ['kg', 1, 'kilogram kilo'], ['g', 0.001, 'gram gramme'], ['mg', 1e-6, 'milligram'], ['t', 1000, 'tonne metric-ton'],
    ['oz', 0.028349523125, 'ounce'], ['lb', 0.45359237, 'pound lbs'], ['st', 6.35029318, 'stone']
  ],
  volume: [
    ['l', 1, 'litre liter'], ['ml', 0.001, 'millilitre milliliter'], ['m3', 1000, 'm³ cubic-metre cubic-meter'],
    ['gal', 3.785411784, 'gallon us-gallon'], ['qt', 0.946352946, 'quart'], ['pt', 0.473176473, 'pint'], ['cup', 0.2365882365, ''], ['floz', 0.0295735295625, 'fluid-ounce']
  ],
  temperature: [
    ['°C', 1, 'c celsius degC'], ['°F', 5 / 9, 'f fahrenheit degF', 32], ['K', 1, 'kelvin', 273.15]
  ],
  duration: [
    ['s', 1, 'second sec'], ['ms', 0.001, 'millisecond'], ['min', 60, 'minute'], ['h', 3600, 'hour hr'], ['d', 86_400, 'day'], ['wk', 604_800, 'week']
  ],
  speed: [
    ['m/s', 1, 'mps'], ['km/h', 1 / 3.6, 'kmh kph'], ['mph', 0.44704, ''], ['kn', 1852 / 3600, 'knot kt'], ['ft/s', 0.3048, 'fps']
  ],
  data: [
    ['B', 1, 'byte'], ['bit', 0.125, ''], ['kB', 1e3, 'kilobyte'], ['MB', 1e6, 'megabyte'], ['GB', 1e9, 'gigabyte'], ['TB', 1e12, 'terabyte'],
    ['KiB', 2 ** 10, 'kibibyte'], ['MiB', 2 ** 20, 'mebibyte'], ['GiB', 2 ** 30, 'gibibyte'], ['TiB', 2 ** 40, 'tebibyte']
  ]
}

const bySymbol = new Map<string, Unit>()
const byName = new Map<string, Unit>()
for (const [dimension, rows] of Object.entries(tables)) {
  for (const [symbol, factor, names, zero = 0] of rows) {
    const unit = { symbol, dimension, factor, zero }
    bySymbol.set(symbol, unit)
    for (const name of names.split(' ')) if (name !== '') byName.set(name.toLowerCase(), unit)
  }
}

/** Symbols of every unit, by dimension. */
export const symbolsByDimension: Record<string, string[]> = Object.fromEntries(
  Object.entries(tables).map(([dimension, rows]) => [dimension, rows.map(([symbol]) => symbol)])
)

/** @param text a symbol (`km`), or a name in the singular or plural, with spaces or hyphens (`Nautical miles`) */
export function findUnit (text: string): Unit | undefined {
  const symbol = text.trim()
  const name = symbol.toLowerCase().replaceAll(' ', '-')
  return bySymbol.get(symbol) ?? byName.get(name) ?? byName.get(name.replace(/s$/, ''))
}

/** Symbols of units that a text which names none may have meant, closest first. */
export function suggestUnits (text: string): string[] {
  const meant = text.trim().toLowerCase()
  const sameLetters = [...bySymbol.keys()].filter((symbol) => symbol.toLowerCase() === meant)
  const sameStart = meant.length < 3 ? [] : [...byName].filter(([name]) => name.startsWith(meant.slice(0, 3))).map(([, unit]) => unit.symbol)
  return [...new Set([...sameLetters, ...sameStart])].slice(0, 5)
}

/** Both units must be of one dimension. Rounded to what a double holds for sure, so that 0.1 m are 10 cm and not nearly so. */
export function convert (value: number, from: Unit, to: Unit): number {
  if (from === to) return value
  const converted = (value - from.zero) * from.factor / to.factor + to.zero
  if (Number.isSafeInteger(converted)) return converted
  // Subtracting a zero point leaves an error of that point's size, which significant digits would not remove.
  return Number(from.zero === to.zero ? converted.toPrecision(15) : converted.toFixed(9)) + 0 // no -0
}
