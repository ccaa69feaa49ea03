import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { isToolPattern, ToolSettings } from '../contract/tool.ts'
import type { Layer, LayerFault } from './layer.ts'
import { defaultFile, settingNames, settingOf, type SettingName } from './settings.ts'
import { below, expectation, faultsOf, isObject, unknownSetting, type ValueFault } from './values.ts'

export interface FileLayer extends Layer {
  /** Settings of tools, by id or pattern. */
  toolSettings: Record<string, ToolSettings>
  /** Where the file is, or would be. */
  path: string
}

/**
 * Reads the file of settings: the one that is named, which then has to be there, or else the default where it is there.
 * Faults are named by the file as the user wrote it and a JSON Pointer, or the line and column where it is not JSON.
 *
 * @param directory that the file's name is taken from; paths in the file are taken from the file's own
 */
export function readConfigFile (named: string | undefined, directory: string): FileLayer {
  const name = named ?? defaultFile
  const layer: FileLayer = { values: {}, faults: [], toolSettings: {}, path: resolve(directory, name) }
  const refuse = (place: string, message: string, setting?: SettingName) => layer.faults.push(faultAt(name + place, message, setting))

  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(layer.path))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && named === undefined) return layer
    refuse('', code === 'ENOENT' ? 'there is no such file' : code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'is not UTF-8' : `cannot be read (${code})`, 'config')
    return layer
  }
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch (error) {
    // Of the engine's message only the place, where it has one: the rest may quote a secret.
    const [, line, column] = /\(line (\d+) column (\d+)\)/.exec((error as Error).message) ?? []
    refuse(line === undefined ? '' : `:${line}:${column}`, line === undefined ? 'is not JSON' : 'is not JSON from here on', 'config')
    return layer
  }
  if (!isObject(content)) {
    refuse('', 'must be an object', 'config')
    return layer
  }
  for (const [key, value] of Object.entries(content)) {
    if (key === '$schema') continue
    const setting = settingNames.find((settingName) => settingName === key)
    const faults = below(key, key === 'tools' ? toolFaults(value) : setting === undefined ? [unknownSetting] : settingFaults(setting, value))
    for (const { pointer, message } of faults) refuse(` ${pointer}`, message, setting)
    if (faults.length > 0) continue
    if (setting === undefined) layer.toolSettings = value as FileLayer['toolSettings']
    else Object.assign(layer.values, { [setting]: pathsFrom(dirname(layer.path), setting, value) })
  }
  return layer
}

function faultAt (path: string, message: string, setting: SettingName | undefined): LayerFault {
  return { path, keyword: 'config', message, setting }
}

function settingFaults (name: SettingName, value: unknown): ValueFault[] {
  const { schema, fileless } = settingOf(name)
  return fileless === true ? [{ pointer: '', message: 'cannot be set in the file' }] : faultsOf(schema, value)
}

function toolFaults (byPattern: unknown): ValueFault[] {
  if (!isObject(byPattern)) return [{ pointer: '', message: `${expectation(ToolSettings)} of settings by tool id or pattern; directories of tools are toolDirectories` }]
  return Object.entries(byPattern).flatMap(([pattern, settings]) => below(pattern, [
    ...(isToolPattern(pattern) ? [] : [{ pointer: '', message: 'no tool can have an id that fits this' }]),
    ...faultsOf(ToolSettings, settings)
  ]))
}

/** The value of a setting, with the paths in it made absolute. */
export function pathsFrom (folder: string, name: SettingName, value: unknown): unknown {
  const { path } = settingOf(name)
  if (path === undefined) return value
  const before = path === true ? '' : path
  const absolute = (text: string) => text.startsWith(before) ? before + resolve(folder, text.slice(before.length)) : text
  return Array.isArray(value) ? value.map(absolute) : absolute(value as string)
}
