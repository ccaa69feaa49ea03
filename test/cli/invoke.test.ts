import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { directoryOf } from '../e2e/cli.ts'
import { echo, gate, send, startGateway, tool, waitFor, type RunningGateway } from '../e2e/harness.ts'
import { Shell, shell, withoutJq, withoutTerminals } from './command-line.ts'

const say = (text: string) => ({ content: [{ type: 'text', text }], details: null })
const steps = tool('steps', async (_id: string, { texts = [] }: { texts?: string[] }, _signal: AbortSignal, onUpdate: (partial: unknown) => void) => {
  for (const text of texts) onUpdate(say(text))
  return { ...say(`${texts.length} steps`), structuredContent: { steps: texts.length } }
})
const failing = tool('failing', () => ({ ...say('No such \u001B[31mcolour\nat all'), structuredContent: { code: 'no_colour' }, isError: true }))
const strict = tool('strict', () => ({}), { parameters: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } })
const secret = tool('secret', (_id: string, input: unknown) => ({ structuredContent: input }), { sensitive: true })
const media = tool('media', () => ({
  content: [
    { type: 'image', data: 'aGVsbG8h', mimeType: 'image/png' },
    { type: 'resource', resource: { uri: 'file:///a' } },
    { type: 'resource_link', uri: 'https://b.example', name: 'b' }
  ]
}))
const large = tool('large', () => ({ structuredContent: 'x'.repeat(3_000_000) }))
const endless = tool('endless', () => new Promise(() => {}))
/** Goes on once the test lets it. */
let release = () => {}
const held = tool('held', async (_id: string, _input: unknown, _signal: AbortSignal, onUpdate: (partial: unknown) => void) => {
  for (const text of ['\u001B[2Jone\r\u0007two\nthree', `${'漢'.repeat(40)}`, '👩‍👩‍👧'.repeat(30), '10 %']) {
    onUpdate(say(text))
    await new Promise<void>((resolve) => { release = resolve })
  }
  return say('done \u001B]0;owned\u0007\u202Eflipped\nsecond line')
})

describe('toolgate invoke', { concurrency: 3 }, () => {
  let gateway: RunningGateway
  let remove: () => unknown
  let env: Record<string, string>
  before(async () => {
    gateway = await startGateway({ after: (run) => { remove = run } }, { tools: [echo, steps, failing, strict, secret, media, large, endless, held] })
    env = { TOOLGATE_URL: gateway.url }
  })
  after(() => remove())

  const recordOf = async (invocationId: string) => (await send(`${gateway.url}/invocations/${invocationId}`)).body

  it('prints the whole answer as JSON where it goes to a pipe, and nothing else', async (t) => {
    const { stdout, stderr, code } = await shell(t, "toolgate invoke echo --input '{\"a\": [1, null]}'", { env })
    const answer = JSON.parse(stdout)
    assert.deepEqual([answer.structuredContent, answer.isError, stderr, code, stdout.split('\n').length], [{ a: [1, null] }, false, '', 0, 2])
    const { invocation, result, input } = await recordOf(answer.invocation.invocationId)
    assert.deepEqual([answer, input], [{ ...result, invocation }, { a: [1, null] }])
  })

  it('a result of megabytes arrives whole at a slow reader', { skip: withoutJq }, async (t) => {
    const { stdout, code } = await shell(t, "toolgate invoke large | (sleep 0.5; jq '.structuredContent | length')", { env })
    assert.deepEqual([stdout, code], ['3000000\n', 0])
  })

  it('a failed call is exit code 1, with its text on standard error and its answer on standard output', async (t) => {
    const { stdout, stderr, code } = await shell(t, 'toolgate invoke failing', { env })
    assert.deepEqual([JSON.parse(stdout).structuredContent, stderr, code], [{ code: 'no_colour' }, 'failing failed (tool_error): No such colour\nat all\n', 1])
  })

  it('refused input is exit code 1, with every fault', async (t) => {
    const { stdout, stderr, code } = await shell(t, 'toolgate invoke strict --set n=1.5', { env })
    assert.deepEqual([JSON.parse(stdout).details.errors.length, code], [1, 1])
    assert.match(stderr, /^strict failed \(invalid_input\): .*\n- \/n: .*integer/)
  })

  it('--timeout-ms ends the call', async (t) => {
    const { stdout, code } = await shell(t, 'toolgate invoke endless --timeout-ms 50', { env })
    assert.deepEqual([JSON.parse(stdout).invocation.errorCode, code], ['timeout', 1])
  })

  it('--set takes JSON, texts and files, over what --input has', async (t) => {
    const cwd = await directoryOf(t, { 'orders.csv': '\uFEFFid,city\n1,"Øst"\n', 'in.json': '\uFEFF{"a": 1, "b": 2}' })
    const { stdout } = await shell(t, 'printf \'piped\' | toolgate invoke echo --input @in.json --set b=text --set c=[1] --set \'d="2"\' --set e=01 --set f=a=b --set g= --set csv=@orders.csv --set -= --set h=@- --set i=-1', { env, cwd })
    assert.deepEqual(JSON.parse(stdout).structuredContent, { a: 1, b: 'text', c: [1], d: '2', e: '01', f: 'a=b', g: '', csv: 'id,city\n1,"Øst"\n', '-': '', h: 'piped', i: -1 })
  })

  for (const form of ['--input -', '--input @-', '--input @/dev/stdin']) {
    it(`${form} reads standard input`, async (t) => {
      const { stdout } = await shell(t, `printf '[1,2]' | toolgate invoke echo ${form}`, { env })
      assert.deepEqual(JSON.parse(stdout).structuredContent, [1, 2])
    })
  }

  it('input may be any JSON, and none is an empty object', async (t) => {
    const { stdout } = await shell(t, 'toolgate invoke echo --input null; toolgate invoke echo', { env })
    assert.deepEqual(stdout.trim().split('\n').map((line) => JSON.parse(line).structuredContent), [null, {}])
  })

  it('--async prints the receipt at once', async (t) => {
    const { stdout, code } = await shell(t, 'toolgate invoke steps --async --run-id run-7', { env })
    const { invocation, ...more } = JSON.parse(stdout)
    assert.deepEqual([invocation.status, invocation.runId, more, code], ['running', 'run-7', {}, 0])
    await waitFor(async () => (await recordOf(invocation.invocationId)).invocation.status === 'succeeded', 'the end')
  })

  it('--idempotency-key makes of two calls one', async (t) => {
    const { stdout } = await shell(t, 'for i in 1 2; do toolgate invoke echo --idempotency-key once --set a=1; done; toolgate invoke echo --idempotency-key once; echo $?', { env })
    const [first, second, code] = stdout.trim().split('\n')
    assert.equal(JSON.parse(first!).invocation.invocationId, JSON.parse(second!).invocation.invocationId)
    assert.equal(code, '2', 'the key stands for other input')
  })

  it('a sensitive tool answers its caller', async (t) => {
    assert.equal(JSON.parse((await shell(t, 'toolgate invoke secret --set pin=1 --follow', { env })).stdout).structuredContent.pin, 1)
  })

  describe('--follow', { concurrency: 3 }, () => {
    it('shows a line for each update where standard error is no terminal', async (t) => {
      const { stdout, stderr } = await shell(t, String.raw`toolgate invoke steps --follow --input '{"texts": ["1 of 2\nfiles", "\u001b[31m2 of 2\r"]}'`, { env })
      const { invocation, structuredContent } = JSON.parse(stdout)
      assert.deepEqual(structuredContent, { steps: 2 })
      assert.match(stderr, new RegExp(`^steps: 1 of 2 files\nsteps: 2 of 2\nsteps succeeded after .*\\d+ ms \\(${invocation.invocationId}\\)\n$`))
    })

    it('is clean JSON for jq', { skip: withoutJq }, async (t) => {
      const cwd = await directoryOf(t, { 'input.json': '{"texts": ["a", "b", "c"]}' })
      const { stdout, stderr, code } = await shell(t, 'toolgate invoke steps --input @input.json --follow | jq -c .structuredContent', { env, cwd })
      assert.deepEqual([stdout, stderr.split('\n').length, code], ['{"steps":3}\n', 5, 0])
    })

    it('shows one line on a terminal that is written over, and ends with the result', { skip: withoutTerminals }, async (t) => {
      const running = new Shell(t, 'toolgate invoke held --follow; echo "exit $?"', { env, columns: 30 })
      for (const shown of [/^held \d s {2}one \uFFFD?two three$/, /^held \d s {2}漢{9}…$/, /^held \d s {2}(👩‍👩‍👧){3}…$/, /^held \d s {2}10 %$/]) {
        await waitFor(() => running.progress.some((state) => shown.test(state)), String(shown), 20_000)
        release()
      }
      await running.ended
      assert.match(running.screen.join('\n'), /^held succeeded after .*\([0-9a-f]+\)\ndone flipped\nsecond line\nexit 0\n$/)
      assert.doesNotMatch(running.stdout.replaceAll('\r\u001B[2K', ''), /[^\P{Cc}\r\n]|\u202E/u, 'nothing of the tool controls the terminal')
    })

    it('shows the clock where a tool tells nothing, and a failure', { skip: withoutTerminals }, async (t) => {
      const told = gate()
      const quiet = await startGateway(t, { tools: [tool('quiet', () => told.promise.then(() => { throw new Error('no luck') }))] })
      const running = new Shell(t, 'toolgate invoke quiet --follow; echo "exit $?"', { env: { TOOLGATE_URL: quiet.url }, columns: 60 })
      await waitFor(() => running.progress.includes('quiet 1 s  '), 'the first second', 20_000)
      told.open()
      await running.ended
      const { progress, screen } = running
      assert.equal(progress[0], 'quiet 0 s  ')
      assert.match(screen.join('\n'), /^quiet failed \(tool_error\) after \S.* \(\w+\): no luck\nexit 1\n$/)
    })

    it('shows progress on the terminal while the result goes through a pipe', { skip: withoutTerminals || withoutJq }, async (t) => {
      const { screen, progress } = await shell(t, 'toolgate invoke steps --follow --input \'{"texts": ["a"]}\' | jq -cM .structuredContent', { env, columns: 80 })
      assert.ok(progress.length > 0)
      assert.match(screen.join('\n'), /^steps succeeded after .*\n\{"steps":1\}\n$/)
    })

    it('writes lines to a terminal that is dumb', { skip: withoutTerminals }, async (t) => {
      const { stdout } = await shell(t, 'toolgate invoke steps --follow --input \'{"texts": ["a"]}\'', { env: { ...env, TERM: 'dumb' }, columns: 80 })
      assert.match(stdout, /^steps: a\r\nsteps succeeded .*\r\n1 steps\r\n$/)
    })
  })

  describe('on a terminal', { concurrency: 3, skip: withoutTerminals }, () => {
    it('prints the text for people, and no more', async (t) => {
      assert.deepEqual((await shell(t, 'toolgate invoke steps', { env, columns: 80 })).screen, ['0 steps', ''])
    })

    it('names what is no text', async (t) => {
      assert.deepEqual((await shell(t, 'toolgate invoke media', { env, columns: 80 })).screen, ['[image, image/png, 6 bytes]', '[resource file:///a]', '[b: https://b.example]', ''])
    })

    it('prints JSON with --json', async (t) => {
      const { stdout, screen } = await shell(t, String.raw`toolgate invoke echo --json --input '"\u001b[31m\u009b"'`, { env, columns: 80 })
      assert.equal(JSON.parse(stdout).structuredContent, '\u001B[31m\u009B')
      assert.ok(screen.length > 5, 'laid out')
      assert.doesNotMatch(stdout, /[^\P{Cc}\r\n]/u)
    })

    it('--async tells the id', async (t) => {
      assert.match((await shell(t, 'toolgate invoke steps --async', { env, columns: 80 })).screen[0]!, /^steps running: [0-9a-f]+$/)
    })

    it('an input from the terminal is asked for, and ends with Ctrl-D', async (t) => {
      const running = new Shell(t, 'toolgate invoke echo --input - --json', { env, columns: 80 })
      await waitFor(() => running.stdout.includes('Ctrl-D ends it.'), 'the request', 20_000)
      running.type('{"typed": true}\n\u0004')
      await running.ended
      assert.deepEqual(JSON.parse(running.stdout.slice(running.stdout.indexOf('{\r\n'))).structuredContent, { typed: true })
    })
  })
})
