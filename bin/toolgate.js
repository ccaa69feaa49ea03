#!/usr/bin/env node
// Plain enough for any Node to parse, so that an old one can say what is needed.
const version = process.versions.node.split('.').map(Number)
if (version[0] < 22 || (version[0] === 22 && version[1] < 18)) {
  console.error('toolgate needs Node 22.18 or newer; this is ' + process.version + '.')
  process.exit(1)
}
const isServing = process.argv[2] === 'serve'
// As the first process of a container, one without a handler does not hear SIGTERM at all. Until the gateway has its own
// nothing runs yet, so there is nothing to wait for; but another command did not do what it was asked for.
const leave = function () { process.exit(isServing ? 0 : 143) }
process.on('SIGTERM', leave)
// What a reload would read has not been read yet. Other commands have none.
const goOn = function () { if (!isServing) process.exit(129) }
process.on('SIGHUP', goOn)
const isAbsent = function (error, file) { return error.code === 'ERR_MODULE_NOT_FOUND' && String(error.url).endsWith(file) }
import('../dist/src/cli.js').catch(function (error) {
  if (!isAbsent(error, '/dist/src/cli.js')) throw error
  // A checkout that was not built runs from its sources.
  return import('../src/cli.ts')
}).then(function () {
  process.off('SIGTERM', leave)
  process.off('SIGHUP', goOn)
}, function (error) {
  if (!isAbsent(error, '/src/cli.ts')) throw error
  console.error('Run `npm run build` first.')
  process.exit(1)
})
