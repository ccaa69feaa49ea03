import neostandard from 'neostandard'

/**
 * Which rooms a room of `src/` may import from. Arrows point one way:
 * contract, errors ← tools, store ← events ← invocation ← routes ← gateway ← cli; client stands apart, on the contract alone, and cli uses it, too.
 * A test (test/architecture.test.ts) holds the same table against what the files really import.
 */
export const rooms = {
  contract: [],
  json: ['errors', 'contract'],
  'errors.ts': ['contract'],
  client: ['contract'],
  'clock.ts': [],
  'ids.ts': [],
  tools: ['contract', 'errors', 'json', 'ids'],
  store: ['contract', 'errors', 'clock', 'ids'],
  events: ['contract', 'errors', 'store', 'clock'],
  invocation: ['contract', 'errors', 'json', 'clock', 'ids', 'tools', 'store'],
  auth: ['contract', 'errors', 'clock', 'tools', 'store'],
  http: ['contract', 'errors', 'json', 'clock', 'events', 'tools', 'store', 'invocation'],
  config: ['contract', 'errors'],
  'log.ts': [],
  'terminal.ts': [],
  'watch.ts': [],
  'reload.ts': ['contract', 'errors', 'config', 'tools'],
  cli: ['contract', 'errors', 'json', 'client', 'auth', 'config', 'tools', 'invocation', 'log', 'terminal', 'watch', 'reload', 'gateway']
}

/** What a consumer has to have, browsers included; types of TypeBox come with the contract. */
export const clientPackages = ['@earendil-works/pi-schema', '@earendil-works/pi-schema/formats', '@sinclair/typebox', 'eventsource-parser']

/** Only these know Fastify. */
export const fastifyRooms = ['routes', 'src/http', 'src/auth', 'src/gateway.ts']

const all = [...Object.keys(rooms).map(nameOf), 'gateway', 'index']

function nameOf (room) {
  return room.replace(/\.ts$/, '')
}

function boundary ([room, allowed]) {
  const isFile = room.endsWith('.ts')
  const forbidden = all.filter((other) => other !== nameOf(room) && !allowed.includes(other))
  const patterns = [{
    regex: `^${isFile ? '\\./' : '(\\.\\./)+'}(${forbidden.join('|')})(/|\\.ts$)`,
    message: `src/${room} may import from: ${allowed.join(', ') || 'nothing of ours'}.`
  }]
  if (!fastifyRooms.includes(`src/${room}`)) {
    patterns.push({ regex: '^(@fastify/|fastify)', message: `Only ${fastifyRooms.join(', ')} know Fastify.` })
  }
  if (room === 'client') {
    patterns.push({ regex: `^(?!\\.|(${clientPackages.join('|')})$)`, message: `The client may import from: ${clientPackages.join(', ')}.` })
  }
  return {
    files: [isFile ? `src/${room}` : `src/${room}/**/*.ts`],
    rules: { 'no-restricted-imports': ['error', { patterns }] }
  }
}

export default [
  ...neostandard({ ts: true, ignores: ['dist/', 'node_modules/', 'coverage/'] }),
  {
    rules: {
      // A schema and its type share a name.
      'no-redeclare': 'off',
      '@typescript-eslint/no-redeclare': 'off',
      '@stylistic/object-property-newline': 'off',
      'no-void': ['error', { allowAsStatement: true }],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-restricted-properties': ['error', {
        object: 'process', property: 'env', message: 'src/config/configuration.ts is the only reader of the environment.'
      }]
    }
  },
  { files: ['src/config/configuration.ts', 'test/**', 'bench/**', 'tools/**'], rules: { 'no-restricted-properties': 'off' } },
  ...Object.entries(rooms).map(boundary)
]
