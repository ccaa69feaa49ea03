import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Scope } from '../../e2e/harness.ts'

/** What becomes of one connection. */
export interface Fate {
  /** Bytes of the answer that get through; all of them where it is Infinity. */
  bytes: number
  /** How it ends then. `silent`: it stands, and nothing comes any more. */
  how: 'end' | 'reset' | 'silent'
  /** Bytes that are passed on at a time; 0 for as they come. */
  pieces: number
}

export interface CuttingProxy {
  url: string
  connections: number
}

/** Stands before a gateway, and lets each connection have the fate that `next` says. */
export async function startCuttingProxy (t: Scope, port: number, next: (connection: number) => Fate): Promise<CuttingProxy> {
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.setNoDelay(true)
  }
  const proxy: CuttingProxy = { url: '', connections: 0 }
  const server = createServer((client) => {
    const gateway = connect(port, '127.0.0.1')
    keep(client)
    keep(gateway)
    // Nothing before there is a request: clients open connections that they then have no use for.
    let fate: Fate | undefined
    let passed = 0
    client.on('data', (bytes) => {
      fate ??= next(proxy.connections++)
      gateway.write(bytes)
    })
    client.on('close', () => gateway.destroy())
    gateway.on('end', () => { if (fate === undefined || passed < fate.bytes) client.end() })
    gateway.on('error', () => client.destroy())
    gateway.on('data', (bytes) => {
      const { bytes: most, how, pieces } = fate!
      const part = bytes.subarray(0, most - passed)
      passed += part.length
      for (let at = 0; at < part.length; at += pieces || part.length) client.write(part.subarray(at, at + (pieces || part.length)))
      if (passed < most) return
      gateway.destroy()
      if (how === 'end') client.end()
      // Not before what is to get through has.
      if (how === 'reset') client.write('', () => client.resetAndDestroy())
    })
  })
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return proxy
}
