import { isIP } from 'node:net'
import { FormatRegistry } from '@sinclair/typebox'

/** A text that is an address, or a range of them as in 10.0.0.0/8, and not one of all there are. */
export const addressRange = 'toolgate-address-range'

const named = ['loopback', 'linklocal', 'uniquelocal']

FormatRegistry.Set(addressRange, (text) => {
  if (named.includes(text)) return true
  const [, address, bits] = /^([\d.:a-f]+)(?:\/(\d{1,3}))?$/i.exec(text) ?? []
  const family = address === undefined ? 0 : isIP(address)
  const most = family === 4 ? 32 : 128
  return family !== 0 && (bits === undefined || (Number(bits) >= 1 && Number(bits) <= most))
})
