import assert from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { emptyFolder, plainEnvironment, writeExamples } from './examples.ts'
import { blocksOf, root, type Block } from './markdown.ts'

/** Blocks for the reader alone: they install, or need a container engine. */
const notRun = /\bnpm (ci|test)\b|\bdocker\b/
const follows = /curl -N \S*\/events/
const has = (command: string) => spawnSync('sh', ['-c', `command -v ${command}`]).status === 0

const commandPages = ['README.md', 'docs/command-line.md']
const blocks = new Map(await Promise.all(commandPages.map(async (page) => {
  const all = await blocksOf(page)
  // What a program prints is looked at where programs are.
  const ofPrograms = new Set(all.filter((_block, index) => all[index - 1]?.file !== undefined && all[index - 1]?.prints !== undefined))
  return [page, all.filter((block) => ['sh', 'text'].includes(block.language) && !notRun.test(block.text) && !ofPrograms.has(block))] as const
})))
/** Processes to end, whatever else happens. */
const started = new Set<ChildProcess>()
const absent = ['sh', 'curl', 'awk', 'node'].filter((command) => !has(command))

for (const page of commandPages) {
  describe(`${page}, command by command`, { skip: absent.length > 0 && `needs ${absent.join(', ')}` }, () => {
    let folder: string
    let remove: () => Promise<void>
    let gateway: { child: ChildProcess, port: string }
    let stream: { child: ChildProcess, text: string } | undefined
    let printed = ''
    let skipped = false

    before(async () => {
      ({ folder, remove } = await emptyFolder())
      await symlink(join(root, 'tools'), join(folder, 'tools'))
      await writeExamples(page, folder)
      gateway = await serve('npm start', folder)
    })
    after(async () => {
      for (const child of started) child.kill('SIGKILL')
      await remove()
    })

    for (const [at, block] of blocks.get(page)!.entries()) {
      it(nameOf(block), { timeout: 60_000 }, async (t) => {
        const { language, info, text } = block
        if (language === 'text') {
          if (skipped) return t.skip('its command was not run')
          if (info === 'events') await until(() => isLike(stream!.text, text), () => `Printed:\n${stream!.text}`)
          else assert.ok(isLike(printed, text), `Printed:\n${printed}`)
        } else if (text.includes('npm start')) {
          stream?.child.kill()
          await stop(gateway.child)
          gateway = await serve(text.trim(), folder)
        } else if (follows.test(text)) {
          const child = spawn('sh', ['-c', `exec ${pointed(text)}`], { stdio: ['ignore', 'pipe', 'ignore'] })
          started.add(child)
          const opened = stream = { child, text: '' }
          child.stdout.setEncoding('utf8').on('data', (chunk: string) => { opened.text += chunk })
          await until(() => opened.text.includes(': connected'), () => 'The stream did not open.')
        } else {
          skipped = /\bjq\b/.test(text) && !has('jq')
          if (skipped) return t.skip('needs jq')
          const isForTerminal = blocks.get(page)![at + 1]?.info === 'terminal'
          skipped ||= isForTerminal && !has('script')
          if (skipped) return t.skip('needs script')
          const { status, stdout, stderr } = await run(pointed(text), folder, isForTerminal)
          assert.equal(status, 0, stderr)
          // Of a line that was written over, what it was at last.
          printed = stdout.split('\n').map((line) => line.split('\r\u001B[2K').at(-1)).join('\n')
        }
      })
    }

    function pointed (command: string): string {
      return command.replaceAll('localhost:8080', `localhost:${gateway.port}`)
        .replaceAll('npx toolgate', `TOOLGATE_URL=http://localhost:${gateway.port} '${process.execPath}' '${join(root, 'bin/toolgate.js')}'`)
    }
  })
}

function nameOf ({ place, language, text }: Block): string {
  return `${place} ${language === 'text' ? 'is printed' : text.trim().split('\n')[0]}`
}

/** Whether `printed` holds the pieces of `shown` in order; `…` stands for anything, white space for nothing. */
function isLike (printed: string, shown: string): boolean {
  const squeezed = printed.replace(/\s+/g, '')
  let at = 0
  return shown.split('…').every((piece, index) => {
    const wanted = piece.replace(/\s+/g, '')
    const found = squeezed.indexOf(wanted, at)
    at = found + wanted.length
    return index === 0 ? found === 0 : found !== -1
  })
}

/** What `npm start` runs, in `folder`: its variables and its arguments after `--`, and a free port. */
async function serve (command: string, folder: string): Promise<{ child: ChildProcess, port: string }> {
  const match = /^((?:TOOLGATE_\w+=\S+ )*)npm start(?: -- (.*))?$/.exec(command)
  assert.ok(match !== null, `not understood: ${command}`)
  const variables = match[1]!.trim().split(' ').filter(Boolean).map((assignment) => assignment.split('='))
  const child = spawn(process.execPath, [join(root, 'src/cli.ts'), 'serve', '--port', '0', ...match[2]?.split(' ') ?? []], {
    cwd: folder, env: { ...plainEnvironment(), ...Object.fromEntries(variables) }, stdio: ['ignore', 'pipe', 'pipe']
  })
  started.add(child)
  let log = ''
  for (const output of [child.stdout, child.stderr]) output.setEncoding('utf8').on('data', (chunk: string) => { log += chunk })
  await until(() => log.includes('toolgate is ready') || child.exitCode !== null, () => log)
  const port = /listening at http:\/\/127\.0\.0\.1:(\d+)/.exec(log)?.[1]
  assert.ok(port !== undefined, log)
  assert.doesNotMatch(log, /was not loaded/)
  return { child, port }
}

async function stop (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [0, null])
}

async function run (command: string, cwd: string, isForTerminal: boolean): Promise<{ status: number | null, stdout: string, stderr: string }> {
  const [program, args] = isForTerminal ? ['script', ['-qfec', `stty cols 100\n${command}`, '/dev/null']] : ['sh', ['-ec', command]]
  // A terminal that nobody types on; one that was closed would end what runs in it.
  const child = spawn(program, args, { cwd, env: { ...plainEnvironment(), TERM: 'xterm' }, stdio: [isForTerminal ? 'pipe' : 'ignore', 'pipe', 'pipe'] })
  started.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout!.setEncoding('utf8').on('data', (chunk: string) => { stdout += chunk })
  child.stderr!.setEncoding('utf8').on('data', (chunk: string) => { stderr += chunk })
  const [status] = await once(child, 'close') as [number | null]
  return { status, stdout, stderr }
}

async function until (holds: () => boolean, otherwise: () => string): Promise<void> {
  const end = Date.now() + 15_000
  while (!holds()) {
    if (Date.now() > end) assert.fail(otherwise())
    await delay(10)
  }
}
