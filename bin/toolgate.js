#!/usr/bin/env node
// Plain enough for any Node to parse, so that an old one can say what is needed.
const version = process.versions.node.split('.').map(Number)
if (version[0] < 22 || (version[0] === 22 && version[1] < 18)) {
  console.error('toolgate needs Node 22.18 or newer; this is ' + process.version + '.')
  process.exit(1)
}
import('../dist/src/cli.js')
