import { workingTool } from './lib/working.ts'

export default [
  workingTool('steps', { replay: 'safe' }),
  workingTool('once', { replay: 'never' }),
  workingTool('line', { replay: 'safe', executionMode: 'sequential' }),
  workingTool('pair', { replay: 'never', maxConcurrent: 2 })
]
