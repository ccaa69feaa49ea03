/** The code of the registry system's documentation, to the letter, in both its forms. */
export const forms = ['ts', 'js'] as const
export type Form = typeof forms[number]

/** What its tool answers. */
export const answer = '服务运行正常'
/** What its `parseInput` and `parseOutput` throw. */
export const refusals = { input: '需要对象', output: '需要文本' }

/** The first example: a small tool that only reads, called in process. */
export const getStatus: Record<Form, string> = {
  ts: `import { ToolRegistry } from '@jangts/agent-core/tools';
const tools = new ToolRegistry().register({
id: 'get_status', kind: 'read', description: '读取演示服务状态',
parseInput(value: unknown) { if (!value || typeof value !== 'object' || Array.isArray(value)) throw new TypeError('需要对象'); return {}; },
execute: () => '服务运行正常',
parseOutput(value: unknown) { if (typeof value !== 'string') throw new TypeError('需要文本'); return value; },
}).seal();
const result = tools.invoke({ toolId: 'get_status', input: {} });
console.log(result.value, result.invocation.invocationId);
`,
  js: `import { ToolRegistry } from '@jangts/agent-core/tools';
const tools = new ToolRegistry().register({
id: 'get_status', kind: 'read', description: '读取演示服务状态',
parseInput(value) { if (!value || typeof value !== 'object' || Array.isArray(value))
throw new TypeError('需要对象'); return {}; },
execute: () => '服务运行正常',
parseOutput(value) { if (typeof value !== 'string')
throw new TypeError('需要文本'); return value; },
}).seal();
const result = tools.invoke({ toolId: 'get_status', input: {} });
console.log(result.value, result.invocation.invocationId);
`
}

/** The second example: a workflow that is bound to its tools once. */
export const workflow: Record<Form, string> = {
  ts: `import { AgentCoreEngine, defineWorkflow, route } from '@jangts/agent-core/engine';
import { ToolRegistry } from '@jangts/agent-core/tools';
type State = { answer?: unknown };
const tools = new ToolRegistry().register({ id: 'get_status', kind: 'read',
parseInput: () => ({}), execute: async () => '服务运行正常', parseOutput: value => value,
}).seal();
const workflow = defineWorkflow<State, unknown>({ id: 'status', nodes: [{
id: 'read', description: '读取状态', startsRound: true,
async run(_state, { tools }) { const { value } = await tools.invoke({ toolId: 'get_status', input: {} }); return { answer: value }; },
routes: [route.deliver('answer')],
}] });
const agent = new AgentCoreEngine({ workflow }).bindToolRuntime(tools);
console.log(await agent.run({}));
`,
  js: `import { AgentCoreEngine, defineWorkflow, route } from '@jangts/agent-core/engine';
import { ToolRegistry } from '@jangts/agent-core/tools';
const tools = new ToolRegistry().register({ id: 'get_status', kind: 'read',
parseInput: () => ({}), execute: async () => '服务运行正常', parseOutput: value => value,
}).seal();
const workflow = defineWorkflow({ id: 'status', nodes: [{
id: 'read', description: '读取状态', startsRound: true,
async run(_state, { tools }) { const { value } = await tools.invoke({ toolId: 'get_status', input: {} }); return { answer: value }; },
routes: [route.deliver('answer')],
}] });
const agent = new AgentCoreEngine({ workflow }).bindToolRuntime(tools);
console.log(await agent.run({}));
`
}

/** An example's text with one piece in another's place, which has to be there. */
export function changed (example: string, piece: string, other: string): string {
  if (example.split(piece).length !== 2) throw new Error(`not there once: ${piece}`)
  return example.replace(piece, other)
}

/** The part of an example that makes its registry, exported: what a directory of tools would have. */
export function toolsOf (example: string): string {
  const from = example.indexOf('const tools =')
  const to = example.indexOf('.seal();') + '.seal();'.length
  return `import { ToolRegistry } from '@jangts/agent-core/tools';\nexport ${example.slice(from, to)}\n`
}
