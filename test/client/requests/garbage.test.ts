import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { describe, it } from 'node:test'
import { ClientError, ConnectionError, ProtocolError, type Client } from '../../../src/client.ts'
import { waitFor, within } from '../../e2e/harness.ts'
import { answer, clientOf, receipt, rejection, sendJson, serverOf, socketsOf } from './servers.ts'

const methods: [string, (client: Client) => Promise<unknown>][] = [
  ['tools', (client) => client.tools()],
  ['tool', (client) => client.tool('echo')],
  ['invoke', (client) => client.invoke('echo')],
  ['invoke as a stream', (client) => client.invoke('echo', 1, { onUpdate: () => {} })],
  ['invokeAsync', (client) => client.invokeAsync('echo')],
  ['invocation', (client) => client.invocation('i1')],
  ['invocations', (client) => client.invocations()],
  ['wait', (client) => client.wait('i1')],
  ['cancel', (client) => client.cancel('i1')],
  ['batch', (client) => client.batch([{ toolId: 'echo' }])]
]

const type = (name: string) => ({ 'content-type': name })
const json = type('application/json')

/** What no gateway answers to anything. */
const garbage: [string, (response: ServerResponse) => void][] = [
  ['a page', (response) => response.writeHead(200, type('text/html')).end('<h1>Welcome</h1>')],
  ['a page that says it is not here', (response) => response.writeHead(404, type('text/html')).end('<h1>No</h1>')],
  ['nothing', (response) => response.writeHead(200).end()],
  ['nothing that is JSON', (response) => response.writeHead(200, json).end()],
  ['JSON that is cut, and says it is whole', (response) => response.writeHead(200, json).end('{"content":[')],
  ['JSON of another type', (response) => response.writeHead(200, type('text/plain')).end(JSON.stringify(answer()))],
  ['an empty object', (response) => sendJson(response, {})],
  ['null', (response) => sendJson(response, 'null')],
  ['a list', (response) => sendJson(response, [])],
  ['a text', (response) => sendJson(response, '"ok"')],
  ['another service', (response) => sendJson(response, { message: 'Hello' })],
  ['a refusal of another service', (response) => sendJson(response, { message: 'Forbidden' }, 403)],
  ['a problem of another service', (response) => sendJson(response, { type: 'about:blank', title: 'No', status: 404, detail: '', code: 'unknown_tool' }, 404, type('application/problem+json'))],
  ['a problem that is none', (response) => sendJson(response, { title: 'No' }, 400, type('application/problem+json'))],
  ['a problem whose parts do not fit', (response) => sendJson(response, { type: 'urn:toolgate:problem:unknown_tool', title: '', status: 404, detail: '', code: 'overloaded' }, 404, type('application/problem+json'))],
  ['a problem of another status', (response) => sendJson(response, { type: 'urn:toolgate:problem:overloaded', title: '', status: 503, detail: '', code: 'overloaded' }, 404, type('application/problem+json'))],
  ['no content', (response) => response.writeHead(204).end()],
  ['not modified', (response) => response.writeHead(304).end()]
]

describe('garbage', () => {
  for (const [name, tell] of garbage) {
    it(`${name} is no answer to anything, and is not asked for again`, async (t) => {
      const server = await serverOf(t, (_request, response) => tell(response))
      const client = clientOf(server)
      for (const [method, ask] of methods) {
        const error = await rejection(ask(client))
        assert.ok(error instanceof ProtocolError && error instanceof ClientError, `${method}: ${error}`)
        assert.equal(error.code, 'not_the_contract')
        assert.ok(error.status >= 200)
      }
      assert.equal(server.seen.length, methods.length)
    })
  }

  const broken: [string, unknown, string][] = [
    ['without content', { ...answer(), content: undefined }, '/content'],
    ['with content that is a text', answer({ content: 'ok' }), '/content'],
    ['with a block of no kind', answer({ content: [{ text: 'x' }] }), '/content/0'],
    ['with isError as a text', answer({ isError: 'false' }), '/isError'],
    ['without isError', answer({ isError: undefined }), '/isError'],
    ['without details', answer({ details: undefined }), '/details'],
    ['without a receipt', { ...answer(), invocation: undefined }, '/invocation'],
    ['with a receipt without an id', answer({}, { invocationId: undefined }), '/invocation/invocationId'],
    ['with a status that there is not', answer({}, { status: 'done' }), '/invocation/status'],
    ['with a code that there is not', answer({ isError: true }, { status: 'failed', errorCode: 'oops' }), '/invocation/errorCode']
  ]
  for (const [name, body, path] of broken) {
    it(`an answer ${name} is refused, and where it is wrong is told`, async (t) => {
      const server = await serverOf(t, ({ url }, response) => sendJson(response, url === '/batch' ? { results: [body], terminate: false } : body))
      const client = clientOf(server)
      const error = await rejection(client.invoke('echo'))
      assert.ok(error instanceof ProtocolError)
      assert.ok(error.faults.some((fault) => fault.path.startsWith(path)), JSON.stringify(error.faults))
      assert.match(error.message, /^The answer is not what a gateway sends/)
      assert.ok(await rejection(client.batch([{ toolId: 'echo' }])) instanceof ProtocolError)
    })
  }

  it('fields that a later version may add are no fault', async (t) => {
    const server = await serverOf(t, (_request, response) => sendJson(response, { ...answer({ later: 1 }, { later: 2 }), more: 3 }))
    assert.equal((await clientOf(server).invoke('echo')).isError, false)
  })

  it('an event stream where JSON is due is not read to its end, which may never come', async (t) => {
    let closed = 0
    const server = await serverOf(t, (_request, response) => {
      response.on('close', () => { closed++ })
      response.writeHead(200, type('text/event-stream')).write(': connected\n\n')
    })
    for (const [name, ask] of methods.filter(([name]) => name !== 'invoke as a stream')) {
      assert.ok(await within(rejection(ask(clientOf(server))), name) instanceof ProtocolError)
    }
    await waitFor(() => closed === methods.length - 1, 'the connections to be let go')
  })

  it('JSON where an event stream is due', async (t) => {
    const server = await serverOf(t, (_request, response) => sendJson(response, answer()))
    const error = await rejection(clientOf(server).invoke('echo', 1, { onUpdate: () => {} }))
    assert.ok(error instanceof ProtocolError)
    assert.equal(error.status, 200)
  })

  it('bytes that are not as they are declared', async (t) => {
    const server = await serverOf(t, (_request, response) => response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(JSON.stringify(answer())))
    for (const [name, ask] of methods) {
      const error = await rejection(ask(clientOf(server, { retry: { retries: 0 } })))
      assert.ok(error instanceof ClientError, `${name}: ${error}`)
    }
  })

  it('headers without end, and what is not HTTP', async (t) => {
    const ways: [string, (socket: import('node:net').Socket) => void][] = [
      ['headers', (socket) => {
        const more = () => { while (!socket.destroyed && socket.write(`x-more: ${'x'.repeat(1000)}\r\n`)); }
        socket.write('HTTP/1.1 200 OK\r\n')
        socket.on('drain', more)
        more()
      }],
      ['another protocol', (socket) => socket.end('SSH-2.0-OpenSSH_9.0\r\n')],
      ['nothing', (socket) => socket.end()]
    ]
    for (const [name, tell] of ways) {
      let asked = 0
      const server = await socketsOf(t, (socket) => socket.once('data', () => { asked++; tell(socket) }))
      const error = await within(rejection(clientOf(server).invoke('echo')), name)
      assert.ok(error instanceof ConnectionError, name)
      assert.equal(error.code, 'interrupted')
      assert.equal(asked, 1, name)
      await rejection(clientOf(server).tools())
      assert.equal(asked, 5, 'what changes nothing is tried again')
    }
  })

  it('the message of garbage says what came', async (t) => {
    const server = await serverOf(t, (_request, response) => response.writeHead(200, type('text/html; charset=utf-8')).end('<h1>Welcome</h1>'))
    assert.equal((await rejection(clientOf(server).tools())).message, 'This is no answer of a gateway: HTTP 200, text/html.')
  })

  it('a stream without an end, of a call that nobody knows', async (t) => {
    const server = await serverOf(t, (_request, response) => response.writeHead(200, type('text/event-stream')).end(': connected\n\n'))
    const error = await rejection(clientOf(server).invoke('echo', 1, { onUpdate: () => {} }))
    assert.ok(error instanceof ConnectionError)
    assert.equal(error.invocationId, undefined)
  })

  it('a stream of something else', async (t) => {
    for (const data of ['{', '{}', '[]', JSON.stringify({ type: 'tool_execution_end' })]) {
      const server = await serverOf(t, (_request, response) => response.writeHead(200, { ...type('text/event-stream'), 'toolgate-invocation-id': 'i1' }).end(`event: tool_execution_end\ndata: ${data}\n\n`))
      assert.ok(await rejection(clientOf(server).invoke('echo', 1, { onUpdate: () => {} })) instanceof ProtocolError)
      assert.equal(server.seen.length, 1)
    }
  })

  it('a record of a call that is over, without its result, is not waited for', async (t) => {
    const server = await serverOf(t, (_request, response) => sendJson(response, { invocation: receipt() }))
    assert.ok(await within(rejection(clientOf(server).wait('i1')), 'the rejection') instanceof ProtocolError)
    assert.equal(server.seen.length, 1)
  })
})
