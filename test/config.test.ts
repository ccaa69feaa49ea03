import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { after, describe, it } from 'node:test'
import { createKey } from '../src/auth/keys/key-text.ts'
import { createGateway } from '../src/gateway.ts'
import { credentialKinds, isLoopback, readConfig as read, shownConfig, unknownVariables } from '../src/config/configuration.ts'
import { defaultConfig, defaultOf, flagOf, settingNames, settingOf, variableOf, type Config, type SettingName } from '../src/config/settings.ts'
import { ToolSettings } from '../src/contract/tool.ts'
import type { GatewayError } from '../src/errors.ts'
import { rowsOf } from './conformance/markdown-table.ts'
import { blocksOf } from './docs/markdown.ts'

type Flags = Parameters<typeof read>[0]

const root = mkdtempSync(join(tmpdir(), 'toolgate-config-'))
after(() => rmSync(root, { recursive: true, force: true }))

/** A folder with these files in it: texts as they are, anything else as JSON. */
function folderOf (files: Record<string, unknown>): string {
  const folder = mkdtempSync(join(root, 'folder-'))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), typeof content === 'string' || content instanceof Uint8Array ? content : JSON.stringify(content))
  }
  return folder
}

const withoutFile = folderOf({})
const file = (content: unknown) => folderOf({ 'toolgate.config.json': content })

function readConfig (flags: Flags, environment: NodeJS.ProcessEnv, folder: string = withoutFile): Config {
  return read(flags, environment, folder).config
}

/** The faults that reading is refused with, by the name that the user wrote. */
function faultsOf (flags: Flags, environment: NodeJS.ProcessEnv = {}, folder: string = withoutFile): Record<string, string> {
  try {
    read(flags, environment, folder)
  } catch (error) {
    const { code, errors, message } = error as GatewayError
    assert.equal(code, 'invalid_config')
    for (const fault of errors!) assert.ok(message.includes(`  ${fault.path}: ${fault.message}`), message)
    return Object.fromEntries(errors!.map((fault) => [fault.path, fault.message]))
  }
  return {}
}

/** Three values that differ, none of them the default (but for switches, which have two). */
function threeValuesOf (name: SettingName): [unknown, unknown, unknown] {
  const { schema, path } = settingOf(name)
  if (name === 'corsOrigins') return [['https://a.example'], ['http://b.example:81', '*'], ['http://c.example']]
  if (name === 'jwksUrl') return ['https://a.example/keys', 'http://localhost:81/?b', 'http://[::1]']
  if (name === 'jwtAlgorithms') return [['RS256'], ['ES256', 'EdDSA'], ['Ed25519']]
  if (name === 'mask') return [['/input/a'], ['/result/content/*/text', '/input/b~1c'], ['/result/details']]
  if (name === 'trustProxy') return [['loopback'], ['10.0.0.0/8', '::1'], ['192.0.2.1']]
  if (name === 'auth') return ['none', 'key', 'none']
  if (name === 'store') return ['memory', 'sqlite:b.db', 'sqlite:/c.db']
  if (name === 'storeSynchronous') return ['full', 'normal', 'full']
  if (schema.type === 'integer') return [schema.minimum + 1, schema.minimum + 2, schema.minimum + 3]
  if (schema.type === 'boolean') return [true, false, true]
  if (schema.anyOf !== undefined) return schema.anyOf.slice(-3).map((option: { const: string }) => option.const)
  const texts = ['a', 'b', 'c'].map((letter) => (path === true ? '/absolute/' : '') + letter.repeat(16))
  return (schema.type === 'array' ? texts.map((text) => [text, `${text}2`]) : texts) as [unknown, unknown, unknown]
}

/** Settings of JWTs that are needed together, as variables. */
const jwtVariables = { TOOLGATE_JWKS_URL: 'https://issuer.example/keys', TOOLGATE_JWT_ISSUER: 'issuer', TOOLGATE_JWT_AUDIENCE: 'gateway' }

/** What else has to be set for a value of this setting to be taken. */
function neededBy (name: SettingName): Record<string, string> {
  if (name === 'host') return { TOOLGATE_AUTH: 'none' }
  const { [variableOf(name)]: own, ...others } = jwtVariables as Record<string, string>
  return own === undefined ? {} : others
}

describe('configuration', () => {
  describe('precedence', () => {
    it('with nothing set is the defaults', () => {
      assert.deepEqual(readConfig({}, {}), defaultConfig())
      assert.deepEqual([defaultConfig().host, defaultConfig().port, defaultConfig().toolDirectories, defaultConfig().apiKey], ['127.0.0.1', 8080, ['./tools'], undefined])
    })

    it('the environment wins over defaults, flags win over the environment', () => {
      const environment = { TOOLGATE_PORT: '1111', TOOLGATE_MAX_BODY_BYTES: '2222' }
      const { port, maxBodyBytes, heartbeatMs } = readConfig({ port: '3333' }, environment)
      assert.deepEqual([port, maxBodyBytes, heartbeatMs], [3333, 2222, 15_000])
    })

    for (const name of settingNames.filter((one) => one !== 'config')) {
      it(`${name}: the flag wins over the variable, that over the file, that over the default`, () => {
        const [ofFile, ofVariable, ofFlag] = threeValuesOf(name)
        const textOf = (value: unknown) => Array.isArray(value) ? value.join(',') : String(value)
        const folder = file({ [name]: ofFile })
        const others = neededBy(name)
        const variable = { ...others, [variableOf(name)]: textOf(ofVariable) }
        assert.deepEqual(readConfig({}, {})[name], defaultOf(name))
        assert.deepEqual(readConfig({}, others, folder)[name], ofFile)
        assert.deepEqual(readConfig({}, variable)[name], ofVariable)
        assert.deepEqual(readConfig({}, variable, folder)[name], ofVariable)
        assert.deepEqual(readConfig({ [name]: textOf(ofFlag) }, others)[name], ofFlag)
        assert.deepEqual(readConfig({ [name]: textOf(ofFlag) }, variable, folder)[name], ofFlag)
      })
    }

    it('the flag that names the file wins over the variable', () => {
      const folder = folderOf({ 'a.json': { port: 1 }, 'b.json': { port: 2 }, 'toolgate.config.json': { port: 3 } })
      const portOf = (flags: Flags, environment: NodeJS.ProcessEnv) => readConfig(flags, environment, folder).port
      assert.deepEqual([portOf({}, {}), portOf({}, { TOOLGATE_CONFIG: 'b.json' }), portOf({ config: 'a.json' }, { TOOLGATE_CONFIG: 'b.json' })], [3, 2, 1])
    })

    it('an origin with a path, which no browser would send, is refused; so is a list of no directory', () => {
      for (const bad of ['https://a.example/', 'a.example', 'https://a.example/x']) {
        assert.throws(() => readConfig({}, { TOOLGATE_CORS_ORIGINS: bad }), { code: 'invalid_config' })
      }
      assert.deepEqual(readConfig({}, { TOOLGATE_CORS_ORIGINS: '*' }).corsOrigins, ['*'])
      assert.throws(() => readConfig({}, { TOOLGATE_TOOLS: ',' }), { code: 'invalid_config' })
    })

    it('empty variables are unset', () => {
      assert.deepEqual(readConfig({}, Object.fromEntries(settingNames.map((name) => [variableOf(name), '']))), defaultConfig())
    })

    it('a bare flag is true', () => assert.equal(readConfig({ strict: true }, {}).strict, true))

    it('changes no default for the next reader', () => {
      readConfig({}, {}).toolDirectories.push('x')
      assert.deepEqual(defaultConfig().toolDirectories, ['./tools'])
    })
  })

  describe('values', () => {
    it('lists are split at commas, and trimmed', () => {
      assert.deepEqual(readConfig({}, { TOOLGATE_TOOLS: ' a , b,,c ' }).toolDirectories, ['a', 'b', 'c'])
    })

    it('proxies and names that can be said', () => {
      const trustProxy = ['loopback', 'linklocal', 'uniquelocal', '192.0.2.1', '10.0.0.0/8', '::1', '2001:db8::/32', '::ffff:10.0.0.1']
      const allowedHosts = ['gateway.example', 'gateway.example:8443', 'gateway', '192.0.2.1:80', '[2001:db8::1]:80']
      const config = readConfig({}, { TOOLGATE_TRUST_PROXY: trustProxy.join(), TOOLGATE_ALLOWED_HOSTS: allowedHosts.join() })
      assert.deepEqual([config.trustProxy, config.allowedHosts], [trustProxy, allowedHosts])
    })

    for (const [text, value] of [['true', true], ['1', true], ['false', false], ['0', false]] as const) {
      it(`${text} is ${value}`, () => assert.equal(readConfig({}, { TOOLGATE_STRICT: text }).strict, value))
    }

    const refused: [variable: string, text: string, message: RegExp][] = [
      ['TOOLGATE_PORT', 'http', /whole number from 0 to 65535/],
      ['TOOLGATE_PORT', '65536', /whole number from 0 to 65535/],
      ['TOOLGATE_PORT', '-1', /whole number/],
      ['TOOLGATE_PORT', '80.5', /whole number/],
      ['TOOLGATE_PORT', '8e3', /whole number/],
      ['TOOLGATE_PORT', ' 80', /whole number/],
      ['TOOLGATE_PORT', '0x50', /whole number/],
      ['TOOLGATE_MAX_BODY_BYTES', '0', /whole number from 1/],
      ['TOOLGATE_MAX_BODY_BYTES', '1 MiB', /whole number/],
      ['TOOLGATE_MAX_BODY_BYTES', '99999999999999999999', /whole number/],
      ['TOOLGATE_HEARTBEAT_MS', '25000', /from 100 to 24000/],
      ['TOOLGATE_MAX_JSON_DEPTH', '1001', /from 1 to 1000/],
      ['TOOLGATE_STRICT', 'yes', /true or false/],
      ['TOOLGATE_LOG_LEVEL', 'loud', /one of fatal, error, warn, info, debug, trace, silent/],
      ['TOOLGATE_AUTH', 'maybe', /one of key, none/],
      ...['*', '*.example', 'https://gateway.example', 'gateway.example/', 'a b', 'a:b', 'user@gateway.example', '::1'].map((text): [string, string, RegExp] => ['TOOLGATE_ALLOWED_HOSTS', text, /without wildcards/]),
      ...['all', '*', 'true', '1', '0.0.0.0/0', '::/0', '10.0.0.0/33', '::1/129', '10.0.0.0/255.0.0.0', '10.0.0', '10.0.0.0/', 'proxy.example', 'fe80::1%eth0', 'loopback,all'].map((text): [string, string, RegExp] => ['TOOLGATE_TRUST_PROXY', text, /an address, a range/]),
      ['TOOLGATE_API_KEY', 'short', /16 to 512 characters/]
    ]
    for (const [variable, text, message] of refused) {
      it(`${variable}=${text} is refused`, () => assert.match(faultsOf({}, { [variable]: text })[variable] ?? '', message))
    }
  })

  describe('faults', () => {
    it('are all named at once, each as the user wrote it', () => {
      const folder = file({ port: '80', maxBodyBytes: 5, tools: { 'pi_*': { timeoutMs: 0 } } })
      const faults = faultsOf({ port: 'x', maxUpdates: '-5' }, { TOOLGATE_PORT: '80', TOOLGATE_MAX_BODY_BYTES: 'big', TOOLGATE_LOG_LEVEL: 'loud' }, folder)
      assert.deepEqual(Object.keys(faults).sort(), [
        '--max-updates', '--port', 'TOOLGATE_LOG_LEVEL', 'TOOLGATE_MAX_BODY_BYTES', 'toolgate.config.json /port', 'toolgate.config.json /tools/pi_*/timeoutMs'
      ])
    })

    it('are told of what another origin wins over, too', () => {
      const faults = faultsOf({ port: '1' }, { TOOLGATE_PORT: 'x' }, file({ port: -1 }))
      assert.deepEqual(Object.keys(faults).sort(), ['TOOLGATE_PORT', 'toolgate.config.json /port'])
    })

    it('never quote a value: it may be a secret', () => {
      const secret = `s3cr3t-${'x'.repeat(600)}`
      // The host is told where it is the reason, and the file by its name.
      for (const name of settingNames.filter((one) => one !== 'host' && one !== 'config')) {
        const content = { [name]: { x: secret }, [`${name}X`]: secret, tools: { a: secret, b: { kind: [secret], x: secret } } }
        const faults = faultsOf({}, { [variableOf(name)]: secret }, file(content))
        assert.ok(Object.keys(faults).length >= 5, name)
        assert.ok(!JSON.stringify(faults).includes('s3cr3t'), name)
      }
      assert.ok(!JSON.stringify(faultsOf({}, { TOOLGATE_API_KEY: 's3cr3t' })).includes('s3cr3t'))
    })
  })

  describe('exposure', () => {
    const key = 'k'.repeat(16)

    it('beyond loopback is refused without a key', () => {
      for (const host of ['0.0.0.0', '::', '192.168.0.5', 'example.com', '127.0.0.1.example.com', '0']) {
        assert.match(faultsOf({ host }).TOOLGATE_API_KEY ?? '', /needed to listen on/, host)
      }
    })

    it('on loopback is not', () => {
      for (const host of ['127.0.0.1', '127.1.2.3', 'localhost', '::1', '[::1]']) {
        assert.equal(isLoopback(host), true)
        assert.equal(readConfig({ host }, {}).host, host)
      }
    })

    it('is allowed with a key, or with none on purpose', () => {
      assert.equal(readConfig({ host: '0.0.0.0' }, { TOOLGATE_API_KEY: key }).apiKey, key)
      assert.equal(readConfig({ host: '0.0.0.0', auth: 'none' }, {}).auth, 'none')
    })

    it('is allowed with a file of keys', () => {
      assert.equal(readConfig({ host: '0.0.0.0' }, { TOOLGATE_KEYS_FILE: 'keys.json' }).keysFile, 'keys.json')
      assert.deepEqual(Object.keys(faultsOf({ host: '0.0.0.0' }, {}, file({ keysFile: 5 }))), ['toolgate.config.json /keysFile'])
    })

    it('credentials are asked for by what is set', () => {
      const kinds = (environment: NodeJS.ProcessEnv) => credentialKinds(readConfig({}, environment))
      assert.deepEqual([kinds({}), kinds({ TOOLGATE_API_KEY: key }), kinds({ TOOLGATE_KEYS_FILE: 'k', TOOLGATE_API_KEY: key })], [[], ['key'], ['key', 'keys file']])
    })

    it('is no second fault of a key that is too short', () => {
      assert.deepEqual(faultsOf({ host: '0.0.0.0' }, { TOOLGATE_API_KEY: 'short' }), { TOOLGATE_API_KEY: 'must have 16 to 512 characters, of visible ASCII without spaces, and be no key of a keys file: those begin with tgk_' })
    })

    it('a key of a keys file is not taken for the one that may do everything', async () => {
      const { text } = createKey()
      assert.deepEqual(Object.keys(faultsOf({}, { TOOLGATE_API_KEY: text })), ['TOOLGATE_API_KEY'])
      await assert.rejects(createGateway({ apiKey: text, logger: false }).ready() as unknown as Promise<void>, { code: 'invalid_config' })
    })

    it('a key that no header can carry is refused, rather than one that nobody can send', () => {
      for (const bad of [`${key}\n`, `${key} ${key}`, `\t${key}`]) assert.ok('TOOLGATE_API_KEY' in faultsOf({}, { TOOLGATE_API_KEY: bad }), JSON.stringify(bad))
    })

    it('is no second fault of a file that cannot be read, which may have the key', () => {
      assert.deepEqual(Object.keys(faultsOf({ host: '0.0.0.0' }, {}, file('{'))), ['toolgate.config.json:1:2'])
    })

    it('is allowed with JWTs', () => {
      const { host, jwksUrl } = readConfig({ host: '0.0.0.0' }, jwtVariables)
      assert.deepEqual([host, jwksUrl], ['0.0.0.0', jwtVariables.TOOLGATE_JWKS_URL])
      assert.deepEqual(Object.keys(faultsOf({ host: '0.0.0.0' }, { ...jwtVariables, TOOLGATE_JWKS_URL: 'http://issuer.example/keys' })), ['TOOLGATE_JWKS_URL'])
    })

    it('the key is a secret, so it has no flag', () => assert.equal(settingOf('apiKey').secret, true))
  })

  describe('JWTs', () => {
    const without = (...names: (keyof typeof jwtVariables)[]) => Object.fromEntries(Object.entries(jwtVariables).filter(([name]) => !names.includes(name as keyof typeof jwtVariables)))

    it('need an issuer, an audience and keys, and what is missing is named', () => {
      assert.deepEqual(faultsOf({}, jwtVariables), {})
      assert.deepEqual(faultsOf({}, without('TOOLGATE_JWT_ISSUER')), { TOOLGATE_JWT_ISSUER: 'needed with TOOLGATE_JWKS_URL' })
      assert.deepEqual(faultsOf({}, without('TOOLGATE_JWT_AUDIENCE', 'TOOLGATE_JWT_ISSUER')), { TOOLGATE_JWT_ISSUER: 'needed with TOOLGATE_JWKS_URL', TOOLGATE_JWT_AUDIENCE: 'needed with TOOLGATE_JWKS_URL' })
      assert.deepEqual(faultsOf({}, without('TOOLGATE_JWKS_URL')), { TOOLGATE_JWKS_URL: 'needed with TOOLGATE_JWT_ISSUER and TOOLGATE_JWT_AUDIENCE' })
      assert.deepEqual(faultsOf({}, { TOOLGATE_JWT_ISSUER: 'i' }), { TOOLGATE_JWKS_URL: 'needed with TOOLGATE_JWT_ISSUER' })
    })

    it('what is at fault, or may stand in a file that is, is not missing', () => {
      assert.deepEqual(Object.keys(faultsOf({}, { ...jwtVariables, TOOLGATE_JWKS_URL: 'x' })), ['TOOLGATE_JWKS_URL'])
      assert.deepEqual(Object.keys(faultsOf({}, without('TOOLGATE_JWT_ISSUER'), file('{'))), ['toolgate.config.json:1:2'])
    })

    for (const url of ['http://issuer.example/', 'http://localhost.example/', 'http://127.0.0.1.example/', 'https://user:secret@issuer.example/', 'https://a\\@issuer.example/', 'https://issuer.example/#x', 'ftp://issuer.example/', 'https://', 'https:///x', 'https://issuer .example/']) {
      it(`keys from ${url} are refused`, () => {
        assert.match(faultsOf({}, { ...jwtVariables, TOOLGATE_JWKS_URL: url }).TOOLGATE_JWKS_URL ?? '', /https URL .* http only on localhost/)
      })
    }

    it('are never let in by a secret that is shared, or by none', () => {
      for (const algorithm of ['HS256', 'HS512', 'none', 'rs256', '']) {
        assert.match(faultsOf({}, { ...jwtVariables, TOOLGATE_JWT_ALGORITHMS: `RS256,${algorithm} ,${algorithm}` }).TOOLGATE_JWT_ALGORITHMS ?? 'none is left out', algorithm === '' ? /none is left out/ : /must be a list of RS256, /)
      }
      assert.deepEqual(Object.keys(faultsOf({}, { TOOLGATE_JWT_ALGORITHMS: ',' })), ['TOOLGATE_JWT_ALGORITHMS'])
    })
  })

  describe('what Kubernetes sets for a Service named toolgate', () => {
    const links = {
      TOOLGATE_PORT: 'tcp://10.0.0.5:80',
      TOOLGATE_SERVICE_HOST: '10.0.0.5',
      TOOLGATE_SERVICE_PORT: '80',
      TOOLGATE_SERVICE_PORT_HTTP: '80',
      TOOLGATE_PORT_80_TCP: 'tcp://10.0.0.5:80',
      TOOLGATE_PORT_80_TCP_PROTO: 'tcp',
      TOOLGATE_PORT_80_TCP_PORT: '80',
      TOOLGATE_PORT_80_TCP_ADDR: '10.0.0.5'
    }

    it('is no setting, and no unknown variable', () => {
      assert.equal(readConfig({}, links).port, 8080)
      assert.deepEqual(unknownVariables(links), [])
    })
  })

  it('variables that look like ours and are not are named', () => {
    assert.deepEqual(unknownVariables({ TOOLGATE_PROT: '1', TOOLGATE_PORT: '1', TOOLGATE_MAX_BODY: '1', PATH: 'x', TOOLGATE: 'x' }), ['TOOLGATE_PROT', 'TOOLGATE_MAX_BODY'])
  })

  it('names follow one rule', () => {
    assert.deepEqual([variableOf('maxBodyBytes'), flagOf('maxBodyBytes'), variableOf('port'), flagOf('storeMaxEventAgeMs')], ['TOOLGATE_MAX_BODY_BYTES', '--max-body-bytes', 'TOOLGATE_PORT', '--store-max-event-age-ms'])
  })
})

describe('the file of settings', () => {
  const name = 'toolgate.config.json'

  it('is not needed, unless it is named', () => {
    assert.deepEqual(readConfig({}, {}), defaultConfig())
    assert.deepEqual(faultsOf({ config: name }, {}), { [name]: 'there is no such file' })
    assert.deepEqual(faultsOf({}, { TOOLGATE_CONFIG: 'conf/x.json' }), { 'conf/x.json': 'there is no such file' })
    assert.match(faultsOf({ config: '' })['--config']!, /not empty/)
  })

  it('takes paths from its own folder; flags and variables take them from the working directory', () => {
    const folder = folderOf({ 'conf/x.json': { toolDirectories: ['./tools', '../more', '/absolute'], hooks: 'hooks.ts', keysFile: 'keys.json', store: 'sqlite:data/t.db' } })
    const { toolDirectories, hooks, keysFile, store } = readConfig({ config: 'conf/x.json' }, {}, folder)
    assert.deepEqual(toolDirectories, [join(folder, 'conf/tools'), join(folder, 'more'), '/absolute'])
    assert.equal(hooks, join(folder, 'conf/hooks.ts'))
    assert.equal(keysFile, join(folder, 'conf/keys.json'))
    assert.equal(store, `sqlite:${join(folder, 'conf/data/t.db')}`)
    assert.equal(readConfig({ config: 'conf/x.json', store: 'memory' }, {}, folder).store, 'memory')
    assert.equal(readConfig({ config: 'conf/x.json' }, { TOOLGATE_STORE: 'sqlite:t.db' }, folder).store, 'sqlite:t.db')
    assert.deepEqual(readConfig({ config: 'conf/x.json', toolDirectories: './t' }, { TOOLGATE_HOOKS: 'h.js' }, folder).toolDirectories, ['./t'])
    assert.equal(readConfig({ config: 'conf/x.json' }, { TOOLGATE_HOOKS: 'h.js' }, folder).hooks, 'h.js')
    assert.equal(read({ config: 'conf/x.json' }, {}, folder).file, join(folder, 'conf/x.json'))
    assert.equal(read({}, {}, folder).file, join(folder, name))
  })

  it('brings settings of tools, and may name its schema', () => {
    const tools = { 'pi_*': { kind: 'read', timeoutMs: 5000, maxConcurrent: 2, sensitive: true }, constructor: { replay: 'safe' } }
    assert.deepEqual(read({}, {}, file({ $schema: './x.json', tools })).toolSettings, tools)
    assert.deepEqual(read({}, {}, file({})).toolSettings, {})
  })

  it('may begin with a byte order mark', () => assert.equal(readConfig({}, {}, file('\uFEFF{"port":1}')).port, 1))

  const typed: [key: string, value: unknown, pointer: string, message: RegExp][] = [
    ['port', '8080', '/port', /whole number from 0 to 65535/],
    ['port', 80.5, '/port', /whole number/],
    ['port', null, '/port', /whole number/],
    ['strict', 'true', '/strict', /true or false/],
    ['strict', 1, '/strict', /true or false/],
    ['toolDirectories', './tools', '/toolDirectories', /list/],
    ['toolDirectories', [], '/toolDirectories', /at least one/],
    ['toolDirectories', ['a', ''], '/toolDirectories/1', /not empty/],
    ['corsOrigins', ['*', 'https://a.example/x', 5], '/corsOrigins/1', /origin/],
    ['corsOrigins', ['*', 'https://a.example/x', 5], '/corsOrigins/2', /origin/],
    ['mask', '/input/a', '/mask', /list of JSON Pointers/],
    ['mask', ['/input/a', '/inputs/a'], '/mask/1', /JSON Pointer that begins with \/input/],
    ['mask', ['/result'], '/mask/0', /JSON Pointer/],
    ['mask', ['/result/usage/input'], '/mask/0', /JSON Pointer/],
    ['mask', ['/input/~2'], '/mask/0', /JSON Pointer/],
    ['tools', { 'pay_*': { mask: ['input/a'] } }, '/tools/pay_*/mask/0', /JSON Pointer/],
    ['logLevel', 'loud', '/logLevel', /one of fatal/],
    ['hooks', ['a'], '/hooks', /text/],
    ['store', 'redis://localhost', '/store', /memory, or sqlite: and the path/],
    ['store', 'sqlite:', '/store', /memory, or sqlite: and the path/],
    ['storeMaxEvents', 0, '/storeMaxEvents', /whole number from 1/],
    ['apiKey', 'short', '/apiKey', /16 to 512/],
    ['config', 'other.json', '/config', /cannot be set in the file/],
    ['maxBodyBites', 5, '/maxBodyBites', /no such setting/],
    ['constructor', 5, '/constructor', /no such setting/],
    ['a/b~c', 5, '/a~1b~0c', /no such setting/],
    ['tools', ['./tools'], '/tools', /toolDirectories/],
    ['tools', { a: 5 }, '/tools/a', /object/],
    ['tools', { a: { timeoutMs: 0 } }, '/tools/a/timeoutMs', /whole number from 1 to 86400000/],
    ['tools', { a: { maxConcurrent: 0 } }, '/tools/a/maxConcurrent', /whole number, 1 or more/],
    ['tools', { a: { sensitve: true } }, '/tools/a/sensitve', /no such setting/],
    ['tools', { a: { toString: true } }, '/tools/a/toString', /no such setting/],
    ['tools', { a: { replay: 'often' } }, '/tools/a/replay', /one of safe, never/],
    ['tools', { '': {} }, '/tools/', /no tool can have/],
    ['tools', { 'a/~b*': {} }, '/tools/a~1~0b*', /no tool can have/],
    ['tools', { '-a': {} }, '/tools/-a', /no tool can have/],
    ['tools', { ['a'.repeat(129)]: {} }, `/tools/${'a'.repeat(129)}`, /no tool can have/]
  ]
  for (const [key, value, pointer, message] of typed) {
    it(`${JSON.stringify({ [key]: value }).slice(0, 60)} is refused at ${pointer.slice(0, 40)}`, () => {
      assert.match(faultsOf({}, {}, file({ [key]: value }))[`${name} ${pointer}`] ?? '', message)
    })
  }

  it('takes every pattern that some id fits', () => {
    for (const pattern of ['*', '**', 'a', 'a*', '*.read', '*-x', '_*', 'a*b*c', '__proto__', '9', 'a'.repeat(128)]) {
      assert.deepEqual(Object.keys(read({}, {}, file(`{"tools":{${JSON.stringify(pattern)}:{}}}`)).toolSettings), [pattern])
    }
  })

  const whole: [what: string, content: unknown, place: string, message: RegExp][] = [
    ['that is empty', '', '', /not JSON/],
    ['that ends too early', '{\n  "port": 1', ':2:12', /not JSON/],
    ['with a comma too many', '{\n  "port": 1,\n}', ':3:1', /not JSON from here/],
    ['with a comment', '{\r\n  // no\r\n}', ':2:3', /not JSON/],
    ['that is a list', '[]', '', /must be an object/],
    ['that is null', 'null', '', /must be an object/],
    ['that is not UTF-8', Uint8Array.of(0x7b, 0xff, 0x7d), '', /UTF-8/]
  ]
  for (const [what, content, place, message] of whole) {
    it(`one ${what} is refused`, () => {
      const faults = faultsOf({}, {}, file(content))
      assert.deepEqual(Object.keys(faults), [name + place])
      assert.match(faults[name + place]!, message)
    })
  }

  it('one that cannot be read is refused', () => {
    assert.match(faultsOf({ config: '.' })['.']!, /cannot be read \(EISDIR\)/)
  })

  it('a fault in it is never quoted, not even where it is not JSON', () => {
    assert.doesNotMatch(JSON.stringify(faultsOf({}, {}, file('{"apiKey": "s3cr3t-and-more" s3cr3t}'))), /s3cr3t/)
  })
})

describe('the configuration that is shown', () => {
  const secret = 'correct-horse-battery-staple'
  const shownOf = (flags: Flags, environment: NodeJS.ProcessEnv, folder: string) => shownConfig(read(flags, environment, folder), folder)

  it('is a file that gives the same configuration, wherever it is saved', () => {
    const folder = file({ tools: { 'pi_*': { timeoutMs: 5 } }, corsOrigins: ['*'], hooks: './h.ts' })
    const shown = shownOf({ port: '1', toolDirectories: 'a,./b', store: 'sqlite:./t.db' }, { TOOLGATE_STRICT: 'true' }, folder)
    assert.equal(shown.store, `sqlite:${join(folder, 't.db')}`)
    assert.equal(shownOf({ store: 'memory' }, {}, folder).store, 'memory')
    assert.deepEqual([shown.toolDirectories, shown.hooks], [[join(folder, 'a'), join(folder, 'b')], join(folder, 'h.ts')])
    const again = file(shown)
    assert.deepEqual(shownOf({}, {}, again), shown)
    assert.deepEqual(read({}, {}, again).toolSettings, { 'pi_*': { timeoutMs: 5 } })
  })

  it('leaves out what is not set', () => {
    const shown = shownOf({}, {}, withoutFile)
    assert.deepEqual(Object.keys(shown), settingNames.filter((name) => defaultOf(name) !== undefined))
    assert.deepEqual(shown.toolDirectories, [resolve(withoutFile, 'tools')])
  })

  it('does not say which file it came from, which no file may', () => {
    const folder = folderOf({ 'x.json': {} })
    assert.ok(!('config' in shownOf({ config: 'x.json' }, {}, folder)))
  })

  it('masks secrets, by what cannot be taken for one', () => {
    const shown = shownOf({}, { TOOLGATE_API_KEY: secret }, withoutFile)
    assert.equal(shown.apiKey, '********')
    assert.deepEqual(Object.keys(faultsOf({}, {}, file(shown))), ['toolgate.config.json /apiKey'])
    assert.equal(shownOf({}, {}, file({ apiKey: secret })).apiKey, '********')
  })
})

describe('docs/configuration.md', () => {
  const rows = rowsOf(readFileSync(new URL('../docs/configuration.md', import.meta.url), 'utf8'))
  const rowOf = (name: SettingName) => rows.filter((cells) => cells.slice(0, 3).some((cell) => cell.includes(`\`${variableOf(name)}\``)))

  for (const name of settingNames) {
    it(`has ${variableOf(name)}, once, with its default`, () => {
      const found = rowOf(name)
      assert.equal(found.length, 1)
      const preset = defaultOf(name)
      const text = preset === undefined || (Array.isArray(preset) && preset.length === 0) ? undefined : Array.isArray(preset) ? preset.join(',') : String(preset)
      if (text !== undefined) assert.ok(found[0]!.some((cell) => cell === `\`${text}\``), `${found[0]!.join(' | ')} has \`${text}\``)
    })

    it(`has the flag of ${variableOf(name)}, where there is one`, () => {
      assert.equal(rowOf(name)[0]!.some((cell) => cell === `\`${flagOf(name)}\``), settingOf(name).secret !== true)
    })
  }

  it('has no variable that there is not', () => {
    const known = new Set(settingNames.map(variableOf))
    const named = rows.flatMap((cells) => /^`(TOOLGATE_[A-Z_]+)`$/.exec(cells[0]!)?.[1] ?? [])
    assert.deepEqual(named.filter((variable) => !known.has(variable)), [])
  })

  it('has every setting of a tool', () => {
    const named = rows.flatMap((cells) => /^`([a-z]\w+)`$/.exec(cells[0]!)?.[1] ?? [])
    assert.deepEqual(named, Object.keys(ToolSettings.properties))
  })

  it('has examples of the file that can be used', async () => {
    const examples = (await blocksOf('docs/configuration.md')).filter(({ language }) => language === 'json')
    assert.ok(examples.length > 0)
    for (const { text } of examples) read({}, {}, file(text))
  })
})
