/** Programs as authors of the registry system write them, in both forms: what its API is used for, and nothing of ours. */
export const forms = ['ts', 'js'] as const
export type Form = typeof forms[number]

/** What their tool answers. */
export const answer = 'all is well'
/** What its `parseInput` and `parseOutput` throw. */
export const refusals = { input: 'the input must be an object', output: 'the output must be a text' }

/** A small tool that only reads, in a sealed registry, called in the same process without waiting. */
function statusProgram (form: Form): string {
  const unknown = form === 'ts' ? ': unknown' : ''
  return `import { ToolRegistry } from '@jangts/agent-core/tools'

const tools = new ToolRegistry().register({
  id: 'get_status',
  kind: 'read',
  description: 'Tells how a service is',
  parseInput (value${unknown}) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('${refusals.input}')
    return {}
  },
  execute: () => '${answer}',
  parseOutput (value${unknown}) {
    if (typeof value === 'string') return value
    throw new TypeError('${refusals.output}')
  }
}).seal()

const called = tools.invoke({ toolId: 'get_status', input: {} })
console.log(called.value, called.invocation.invocationId)
`
}

/** A workflow that is bound to its tools once: its nodes find them in what they are given. */
function workflowProgram (form: Form): string {
  const state = form === 'ts' ? '<{ answer?: unknown }, unknown>' : ''
  return `import { AgentCoreEngine, defineWorkflow, route } from '@jangts/agent-core/engine'
import { ToolRegistry } from '@jangts/agent-core/tools'

const tools = new ToolRegistry().register({
  id: 'get_status', kind: 'read', parseInput: () => ({}), execute: async () => '${answer}', parseOutput: (value) => value
}).seal()

const workflow = defineWorkflow${state}({
  id: 'look-once',
  nodes: [{
    id: 'look',
    description: 'Asks how the service is',
    startsRound: true,
    async run (_state, { tools }) {
      const { value } = await tools.invoke({ toolId: 'get_status', input: {} })
      return { answer: value }
    },
    routes: [route.deliver('answer')]
  }]
})

const agent = new AgentCoreEngine({ workflow }).bindToolRuntime(tools)
console.log(await agent.run({}))
`
}

export const getStatus: Record<Form, string> = { ts: statusProgram('ts'), js: statusProgram('js') }
export const workflow: Record<Form, string> = { ts: workflowProgram('ts'), js: workflowProgram('js') }

/** A program's text with one piece in another's place, which has to be there. */
export function changed (program: string, piece: string, other: string): string {
  if (program.split(piece).length !== 2) throw new Error(`not there once: ${piece}`)
  return program.replace(piece, other)
}

/** The part of a program that makes its registry, exported: what a directory of tools would have. */
export function toolsOf (program: string): string {
  const from = program.indexOf('const tools =')
  const to = program.indexOf('.seal()') + '.seal()'.length
  return `import { ToolRegistry } from '@jangts/agent-core/tools'\nexport ${program.slice(from, to)}\n`
}
