import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { defaultConfig, defaultOf, flagOf, isLoopback, readConfig, settingNames, settings, unknownVariables, variableOf, type SettingName } from '../src/config.ts'
import type { GatewayError } from '../src/errors.ts'
import { rowsOf } from './conformance/markdown-table.ts'

type Flags = Parameters<typeof readConfig>[0]

/** The faults that reading is refused with, by the name that the user wrote. */
function faultsOf (flags: Flags, environment: NodeJS.ProcessEnv = {}): Record<string, string> {
  try {
    readConfig(flags, environment)
  } catch (error) {
    const { code, errors, message } = error as GatewayError
    assert.equal(code, 'invalid_config')
    for (const fault of errors!) assert.ok(message.includes(`  ${fault.path}: ${fault.message}`), message)
    return Object.fromEntries(errors!.map((fault) => [fault.path, fault.message]))
  }
  return {}
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

    it('every setting can be set by its variable and, but for secrets, by its flag', () => {
      const samples: Record<string, [text: string, value: unknown]> = { boolean: ['true', true], array: ['a,b', ['a', 'b']], string: ['a-text-of-some-length', 'a-text-of-some-length'] }
      for (const name of settingNames) {
        const schema = settings[name].schema as { type?: string, minimum?: number, anyOf?: { const: string }[] }
        const last = schema.anyOf?.at(-1)?.const
        const origins: [text: string, value: unknown] = ['https://a.example,http://b.example:81', ['https://a.example', 'http://b.example:81']]
        const [text, value] = name === 'corsOrigins' ? origins : last !== undefined ? [last, last] : schema.minimum !== undefined ? [String(schema.minimum), schema.minimum] : samples[schema.type!]!
        const environment = name === 'host' ? { TOOLGATE_AUTH: 'none' } : {}
        assert.deepEqual(readConfig({}, { ...environment, [variableOf(name)]: text })[name], value, variableOf(name))
        assert.deepEqual(readConfig({ [name]: text }, environment)[name], value, flagOf(name))
      }
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
      ['TOOLGATE_API_KEY', 'short', /16 to 512 characters/]
    ]
    for (const [variable, text, message] of refused) {
      it(`${variable}=${text} is refused`, () => assert.match(faultsOf({}, { [variable]: text })[variable] ?? '', message))
    }
  })

  describe('faults', () => {
    it('are all named at once, each as the user wrote it', () => {
      const faults = faultsOf({ port: 'x', maxUpdates: '-5' }, { TOOLGATE_PORT: '80', TOOLGATE_MAX_BODY_BYTES: 'big', TOOLGATE_LOG_LEVEL: 'loud' })
      assert.deepEqual(Object.keys(faults).sort(), ['--max-updates', '--port', 'TOOLGATE_LOG_LEVEL', 'TOOLGATE_MAX_BODY_BYTES'])
    })

    it('never quote a value: it may be a secret', () => {
      for (const name of settingNames) {
        const secret = `s3cr3t-${'x'.repeat(600)}`
        try {
          readConfig({}, { [variableOf(name)]: secret })
        } catch (error) {
          const { message, errors } = error as GatewayError
          // The host is the one that is told, where it is the reason.
          if (name !== 'host') assert.ok(!`${message}${JSON.stringify(errors)}`.includes('s3cr3t'), name)
        }
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

    it('is no second fault of a key that is too short', () => {
      assert.deepEqual(faultsOf({ host: '0.0.0.0' }, { TOOLGATE_API_KEY: 'short' }), { TOOLGATE_API_KEY: 'must have 16 to 512 characters, of visible ASCII without spaces' })
    })

    it('a key that no header can carry is refused, rather than one that nobody can send', () => {
      for (const bad of [`${key}\n`, `${key} ${key}`, `\t${key}`]) assert.ok('TOOLGATE_API_KEY' in faultsOf({}, { TOOLGATE_API_KEY: bad }), JSON.stringify(bad))
    })

    it('secrets have no flag', () => assert.ok('flagless' in settings.apiKey))
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
    assert.deepEqual([variableOf('maxBodyBytes'), flagOf('maxBodyBytes'), variableOf('port'), flagOf('storeMaxAgeMs')], ['TOOLGATE_MAX_BODY_BYTES', '--max-body-bytes', 'TOOLGATE_PORT', '--store-max-age-ms'])
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
      assert.equal(rowOf(name)[0]!.some((cell) => cell === `\`${flagOf(name)}\``), !('flagless' in settings[name]))
    })
  }

  it('has no variable that there is not', () => {
    const known = new Set(settingNames.map(variableOf))
    const named = rows.flatMap((cells) => /^`(TOOLGATE_[A-Z_]+)`$/.exec(cells[0]!)?.[1] ?? [])
    assert.deepEqual(named.filter((variable) => !known.has(variable)), [])
  })
})
