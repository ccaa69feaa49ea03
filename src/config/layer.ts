import type { Fault } from '../contract/problem.ts'
import { flagOf, settingNames, settingOf, variableOf, type Config, type SettingName } from './settings.ts'
import { expectation, faultsOf, valueOfText } from './values.ts'

/** What one origin of settings gives. */
export interface Layer {
  /** What it sets, without what is at fault. */
  values: Partial<Config>
  faults: LayerFault[]
}

export interface LayerFault extends Fault {
  /** The setting at fault; `config` for the file as a whole. */
  setting: SettingName | undefined
}

export type Flags = Partial<Record<SettingName, string | boolean | undefined>>

/** What is given as texts by the names of settings, each under its outer name in faults. */
function textLayer (given: Flags, nameOf: (name: SettingName) => string): Layer {
  const layer: Layer = { values: {}, faults: [] }
  for (const setting of settingNames) {
    const text = given[setting]
    if (text === undefined) continue
    const { schema } = settingOf(setting)
    const value = valueOfText(schema, text)
    if (faultsOf(schema, value).length === 0) Object.assign(layer.values, { [setting]: value })
    else layer.faults.push({ path: nameOf(setting), keyword: 'config', message: expectation(schema), setting })
  }
  return layer
}

/** @param flags as given, by setting name; texts, or true for a bare flag */
export function flagLayer (flags: Flags): Layer {
  return textLayer(flags, flagOf)
}

/** Empty is unset; so is what Kubernetes sets for a Service named toolgate (`TOOLGATE_PORT=tcp://…`). */
export function variableLayer (environment: NodeJS.ProcessEnv): Layer {
  const given = settingNames.map((name) => [name, environment[variableOf(name)]] as const)
  return textLayer(Object.fromEntries(given.filter(([, text]) => text !== undefined && text !== '' && !text.startsWith('tcp://'))), variableOf)
}
