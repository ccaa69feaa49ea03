import assert from 'node:assert/strict'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { existsSync } from 'node:fs'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { before, describe, it } from 'node:test'
import { echo, invoke, startGateway, tool, type Scope } from '../e2e/harness.ts'
import { shell } from './command-line.ts'

const apiKey = 'correct-horse-battery-staple'

async function listen (t: Scope, server: Server): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
const answering = (t: Scope, answer: RequestListener) => listen(t, createHttpServer(answer))
const problem = (status: number, code: string, headers = {}): RequestListener => (_request, response) => {
  response.writeHead(status, { 'content-type': 'application/problem+json', ...headers })
  response.end(JSON.stringify({ type: `urn:toolgate:problem:${code}`, title: code, status, detail: 'Because.', code }))
}

describe('a command that cannot reach a gateway', { concurrency: 3 }, () => {
  let nowhere: string
  before(async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    nowhere = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await new Promise((resolve) => server.close(resolve))
  })

  for (const command of ['tools', 'tools echo', 'invoke echo', 'invoke echo --follow', 'invoke echo --async', 'events']) {
    it(`is exit code 3: ${command}`, async (t) => {
      const { stdout, stderr, code } = await shell(t, `toolgate ${command}`, { env: { TOOLGATE_URL: nowhere } })
      assert.deepEqual([stdout, stderr, code], ['', `${nowhere} cannot be reached (ECONNREFUSED).\n--url or TOOLGATE_URL says where the gateway is.\n`, 3])
    })
  }

  it('is exit code 3 where something else listens', async (t) => {
    const garbage = await listen(t, createServer((socket) => socket.end('\u001B[31mSSH-2.0-what\r\n')))
    const page = await answering(t, (_request, response) => response.setHeader('content-type', 'text/html').end('<html>'))
    const odd = await answering(t, (_request, response) => response.setHeader('content-type', 'application/json').end('{"tools": [{"id": 1}]}'))
    const proxy = await answering(t, (_request, response) => response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here'))
    for (const url of [garbage, page, odd, proxy]) {
      for (const command of ['tools', 'invoke echo']) {
        const { stdout, stderr, code } = await shell(t, `toolgate ${command} --url ${url}`)
        assert.deepEqual([stdout, code], ['', 3], stderr)
        assert.match(stderr, /^\S.{10,}\n$/, 'a line, no stack')
        assert.doesNotMatch(stderr, /[^\P{Cc}\n]/u)
      }
    }
  })

  it('is exit code 3 where the gateway has no room, or is going', async (t) => {
    for (const [status, code] of [[503, 'overloaded'], [503, 'shutting_down'], [429, 'too_many_subscribers'], [500, 'internal']] as const) {
      const url = await answering(t, problem(status, code))
      const ended = await shell(t, `toolgate invoke echo --url ${url}`)
      assert.deepEqual([ended.stderr, ended.code], [`The gateway refused (${code}): Because.\n`, 3])
    }
  })

  it('a call whose connection breaks before it is known is exit code 3, and is not made twice', async (t) => {
    let requests = 0
    const url = await answering(t, (request) => {
      requests++
      request.socket.destroy()
    })
    const { stderr, code } = await shell(t, `toolgate invoke echo --url ${url}`)
    assert.equal(code, 3)
    assert.match(stderr, /was lost/)
    assert.equal(requests, 1)
  })
})

describe('a command that the caller has to change', { concurrency: 3 }, () => {
  for (const [command, message] of [
    ['', /Usage: toolgate/],
    ['nothing', /unknown command 'nothing'[\s\S]*--help/],
    ['serve --prot 1', /--prot[\s\S]*--help/],
    ['invoke', /missing required argument 'tool'/],
    ['invoke echo more', /too many arguments/],
    ['invoke echo --inptu 1', /--inptu[\s\S]*Did you mean --input/],
    ['invoke echo --input', /argument missing/],
    ['invoke echo --timeout-ms soon', /whole number/],
    ['invoke echo --timeout-ms 0', /whole number/],
    ['invoke echo --async --follow', /cannot be used with/],
    ['invoke echo --input no', /^error: --input is not JSON/],
    ['invoke echo --input @nowhere', /^error: nowhere is not there$/m],
    ['invoke echo --input - < /dev/null', /^error: standard input is empty; JSON is needed$/m],
    ['events --type begun', /Allowed choices are start, update, end/],
    ['events --count 1.5', /whole number/],
    ['tools --url localhost:8080', /^error: --url must begin with http/],
    ['tools --url 127.0.0.1:8080', /^error: --url is no URL; it looks like http/],
    ['tools --url http://me:s3cret@127.0.0.1:1', /^error: --url must hold neither name nor password/],
    ['tools --url "http://127.0.0.1:1/?key=s3cret"', /^error: --url must hold no query$/m],
    ['tools ""', /There can be no such id/],
    ['invoke ..', /There can be no such id/],
    ['invoke echo --idempotency-key käse漢', /must be ASCII/],
    ['invoke echo --idempotency-key "a\nb"', /must be ASCII/],
    ['invoke echo --idempotency-key ""', /must be ASCII/]
  ] as const) {
    it(`is exit code 2: toolgate ${command}`, async (t) => {
      // Nothing is asked of a gateway, or the code would be 3.
      const { stdout, stderr, code } = await shell(t, `toolgate ${command}`, { env: { TOOLGATE_URL: 'http://127.0.0.1:1' } })
      assert.deepEqual([stdout, code], ['', 2], stderr)
      assert.match(stderr, message)
      assert.doesNotMatch(stderr, /\n {4}at |s3cret/)
    })
  }

  it('is exit code 2 where variables are at fault, which are named and not quoted', async (t) => {
    const url = await shell(t, 'toolgate tools', { env: { TOOLGATE_URL: 'ftp://secret.example' } })
    assert.deepEqual([url.stderr, url.code], ['error: TOOLGATE_URL must begin with http:// or https://\n', 2])
    const key = await shell(t, 'toolgate tools', { env: { TOOLGATE_API_KEY: 'secret key' } })
    assert.deepEqual([key.stderr, key.code], ['error: TOOLGATE_API_KEY must be visible ASCII without spaces\n', 2])
  })

  it('is exit code 2 where the gateway refuses what was asked', async (t) => {
    const { url } = await startGateway(t, { tools: [echo, tool('secret', () => ({}), { sensitive: true })], maxBodyBytes: 1000 })
    for (const [command, code] of [
      ['tools no_such', 'unknown_tool'], ['invoke no_such', 'unknown_tool'], ['invoke no/such', 'unknown_tool'], ['invoke secret --async', 'not_supported'],
      [`invoke echo --set a=${'x'.repeat(2000)}`, 'body_too_large'], ['invoke echo --set __proto__=1', 'forbidden_key'],
      ['invoke echo --timeout-ms 86400001', 'invalid_request']
    ] as const) {
      const ended = await shell(t, `toolgate ${command}`, { env: { TOOLGATE_URL: url } })
      assert.deepEqual([ended.stdout, ended.code], ['', 2], ended.stderr)
      assert.match(ended.stderr, new RegExp(`^The gateway refused \\(${code}\\): \\S`))
    }
  })

  it('an input of megabytes that is too large is told so, while it is still being sent', async (t) => {
    const { url } = await startGateway(t, { tools: [echo] })
    const { stderr, code } = await shell(t, "head -c 20000000 /dev/zero | tr '\\0' x | toolgate invoke echo --set text=@-", { env: { TOOLGATE_URL: url } })
    assert.match(stderr, /^The gateway refused \(body_too_large\): .*1048576.*\nTOOLGATE_MAX_BODY_BYTES /)
    assert.equal(code, 2)
  })
})

describe('a result that cannot be written', { skip: existsSync('/dev/full') ? false : 'no /dev/full here', concurrency: 3 }, () => {
  for (const command of ['invoke echo', 'invoke echo --async', 'tools', 'tools echo', 'events --since earliest']) {
    it(`is no success: toolgate ${command}`, async (t) => {
      const { url } = await startGateway(t, { tools: [echo] })
      await invoke({ url }, 'echo')
      const { stderr, code } = await shell(t, `toolgate ${command} > /dev/full`, { env: { TOOLGATE_URL: url } })
      assert.equal(code, 2)
      assert.match(stderr, /^error: the result cannot be written to standard output \(ENOSPC\)$/m)
    })
  }
})

describe('the key', { concurrency: 3 }, () => {
  it('is that of TOOLGATE_API_KEY, and is never shown', async (t) => {
    const { url } = await startGateway(t, { tools: [echo], apiKey })
    for (const command of ['tools', 'invoke echo', 'events --count 1']) {
      for (const [key, expected] of [[apiKey, 0], ['another-key-that-is-wrong', 2], ['', 2]] as const) {
        // Something to see for those who follow from the start.
        const ended = await shell(t, `toolgate ${command} ${command.startsWith('events') ? '--since earliest' : ''}`, { env: { TOOLGATE_URL: url, TOOLGATE_API_KEY: key } })
        assert.equal(ended.code, expected, `${command}: ${ended.stderr}`)
        if (expected === 2) assert.match(ended.stderr, /^The gateway refused \(unauthorized\): .*\nTOOLGATE_API_KEY sets the key or token\.\n$/)
        assert.ok(!(ended.stdout + ended.stderr).includes(key || apiKey))
      }
    }
  })
})
