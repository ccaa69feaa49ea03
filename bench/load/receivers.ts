import { connect, type Socket } from 'node:net'

/**
 * Subscribers that do nothing but count bytes. Told `{ type: 'expect', bytes }`, they answer `done` with the time from
 * the first byte after that to the last byte of the last receiver.
 */
const [port, path, count] = process.argv.slice(2)
let opened = 0
let waiting = 0
let expected = Infinity
let firstAt = 0
const received: number[] = []

for (let number = 0; number < Number(count); number++) open(number)

function open (number: number): void {
  const socket: Socket = connect(Number(port), '127.0.0.1')
  let ready = false
  received[number] = 0
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
  socket.on('data', (bytes) => {
    if (!ready) {
      if (!bytes.includes(': connected')) return
      ready = true
      if (++opened === Number(count)) process.send!({ type: 'open' })
      return
    }
    if (firstAt === 0) firstAt = performance.now()
    const before = received[number]!
    received[number] = before + bytes.length
    if (before < expected && before + bytes.length >= expected && --waiting === 0) {
      process.send!({ type: 'done', ms: performance.now() - firstAt })
    }
  })
  socket.on('error', (error) => { throw error })
  socket.on('close', () => { throw new Error('a receiver was cut') })
}

process.on('message', (message: { type: string, bytes: number }) => {
  if (message.type === 'expect') {
    received.fill(0)
    expected = message.bytes
    waiting = Number(count)
    firstAt = 0
    process.send!({ type: 'expecting' })
  } else if (message.type === 'stop') {
    process.exit(0)
  }
})
