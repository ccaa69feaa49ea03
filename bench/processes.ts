import { execFile, fork, spawnSync, type ChildProcess } from 'node:child_process'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'

/** Servers run on one core and load on the other, where the machine lets us choose. */
export const canPin = spawnSync('taskset', ['-c', '0,1', 'true']).status === 0
const cores = { server: '0', load: '1' }

const fileOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const running = new Set<ChildProcess>()

/** Starts a script with a message channel, pinned, as `node --expose-gc`. */
export function start (script: string, role: keyof typeof cores, args: string[] = [], env: Record<string, string> = {}): ChildProcess {
  const pinned = canPin ? { execPath: 'taskset', execArgv: ['-c', cores[role], process.execPath, '--expose-gc'] } : { execArgv: ['--expose-gc'] }
  const child = fork(fileOf(script), args, { ...pinned, env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

/** Runs a script to its end and gives the JSON that it prints. */
export async function run<T> (script: string, args: string[]): Promise<T> {
  const command = canPin ? ['taskset', '-c', cores.load, process.execPath] : [process.execPath]
  const { stdout } = await promisify(execFile)(command[0]!, [...command.slice(1), fileOf(script), ...args])
  return JSON.parse(stdout) as T
}

/** The next message of that type. Rejects where the process ends first. */
export function message<T> (child: ChildProcess, type: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const onExit = () => reject(new Error('a benchmark process ended'))
    const onMessage = (received: { type: string }) => {
      if (received.type !== type) return
      child.off('message', onMessage)
      child.off('exit', onExit)
      resolve(received as T)
    }
    child.on('message', onMessage)
    child.on('exit', onExit)
  })
}

export interface Server {
  child: ChildProcess
  port: number
  /** What its callers have to send; undefined where it asks for nothing. */
  token: string | undefined
}

export async function startServer (script: string, env?: Record<string, string>): Promise<Server> {
  const child = start(script, 'server', [], env)
  const { port, token } = await message<{ port: number, token?: string }>(child, 'listening')
  return { child, port, token }
}

export function stopAll (): void {
  for (const child of running) child.kill('SIGKILL')
}
