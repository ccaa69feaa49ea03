import assert from 'node:assert/strict'
import { access, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { describe, it } from 'node:test'
import { Command } from 'commander'
import { addEvents } from '../../src/cli/events-command.ts'
import { addInvocation } from '../../src/cli/invocation-command.ts'
import { addInvoke } from '../../src/cli/invoke-command.ts'
import { addKeys } from '../../src/cli/keys-command.ts'
import { addTools } from '../../src/cli/tools-command.ts'
import { urlVariable } from '../../src/config/configuration.ts'
import { settingNames, settings, flagOf, variableOf } from '../../src/config/settings.ts'
import { pages, root, textOf } from './markdown.ts'

/** Sites that a page may send its reader to. */
const knownSites = ['jqlang.org', 'keepachangelog.com', 'semver.org', 'getpino.io']
/** Hosts that are nobody's. */
const isReserved = (host: string) => /^(localhost|127\.0\.0\.1)(:\d+)?$|(^|\.)example(\.(com|org|net))?$/.test(host)

for (const page of pages) {
  describe(page, () => {
    it('links to files and headings that are there', async () => {
      const text = withoutCode(await textOf(page))
      for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(target!)) continue
        const [path, anchor] = target!.split('#') as [string, string?]
        const file = path === '' ? page : relative(root, join(root, dirname(page), path))
        await assert.doesNotReject(access(join(root, file)), `${target} is not there`)
        if (anchor !== undefined) assert.ok(anchorsOf(await textOf(file)).includes(anchor), `${target} is no heading`)
      }
    })

    it('sends its reader to known sites only', async () => {
      for (const [, host] of (await textOf(page)).matchAll(/https?:\/\/([^\s/`"',;)]+)/g)) {
        assert.ok(knownSites.includes(host!) || isReserved(host!), host)
      }
    })

    it('names no path of some machine, and nothing of how it came to be', async () => {
      const text = await textOf(page)
      assert.doesNotMatch(text, /(^|[\s`"'(=:])\/(home|root|Users|work|tmp|opt|usr|var|mnt)\//m)
      assert.doesNotMatch(text, /\bTODO\b|\bFIXME\b|(^|\s)#\d+\b|\b(sprint|milestone)s?\b/i)
    })

    it('names variables, flags and scripts that there are', async () => {
      const text = await textOf(page)
      const variables = [...settingNames.map(variableOf), urlVariable]
      for (const [name] of text.matchAll(/\bTOOLGATE_[A-Z][A-Z_]*[A-Z]\b/g)) assert.ok(variables.includes(name), name)
      const flags = ['--help', ...settingNames.filter((name) => !('secret' in settings[name])).map(flagOf)]
      for (const [, given] of text.matchAll(/(?:toolgate (?:serve|config)|npm start --) ([^\n`]+)/g)) {
        for (const [flag] of given!.matchAll(/--[a-z-]+/g)) assert.ok(flags.includes(flag), flag)
      }
      for (const [, command, given] of text.matchAll(/toolgate (tools|invoke|invocation|events|keys (?:create|list|revoke))\b([^\n`|]*)/g)) {
        for (const [flag] of given!.matchAll(/(?<=\s)--[a-z-]+/g)) assert.ok(optionsOf(command!).includes(flag), `${command} ${flag}`)
      }
      const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
      for (const [, name] of text.matchAll(/\bnpm run ([\w-]+)/g)) assert.ok(name! in scripts, name)
    })
  })
}

/** The long names of the options of a command, which may be one of another's. */
function optionsOf (names: string): string[] {
  const program = new Command()
  for (const add of [addTools, addInvoke, addInvocation, addEvents, addKeys]) add(program)
  return names.split(' ').reduce((command, name) => command.commands.find((one) => one.name() === name)!, program).options.map(({ long }) => long!)
}

function withoutCode (markdown: string): string {
  return markdown.replace(/^```[\s\S]*?^```$/gm, '').replace(/`[^`\n]*`/g, '``')
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf (markdown: string): string[] {
  return [...markdown.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm)]
    .map(([, heading]) => heading!.toLowerCase().replace(/[^\w\s-]/g, '').trim().replace(/\s/g, '-'))
}
