import { request } from 'node:http'

/** Reads a stream of events until it has had so many, and prints as JSON how long that took from its first byte. */
const [url, count] = process.argv.slice(2)
const MARK = Buffer.from('\ndata: ')
let seen = 0
let firstAt = 0
let rest: Buffer = Buffer.alloc(0)

const stream = request(url!, (response) => {
  response.on('data', (bytes: Buffer) => {
    if (firstAt === 0) firstAt = performance.now()
    // A mark may lie across two of them.
    const text = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    let from = 0
    for (let at = text.indexOf(MARK); at !== -1; at = text.indexOf(MARK, from)) {
      seen++
      from = at + MARK.length
    }
    rest = text.subarray(Math.max(from, text.length - MARK.length + 1))
    if (seen < Number(count)) return
    process.stdout.write(JSON.stringify({ ms: performance.now() - firstAt }))
    stream.destroy()
  })
  response.on('error', () => {})
})
stream.on('error', (error) => { if (seen < Number(count)) throw error })
stream.end()
