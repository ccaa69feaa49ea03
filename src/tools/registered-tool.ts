import type { Fault } from '../contract/problem.ts'
import type { OutputValidation, ToolDescriptor } from '../contract/tool.ts'
import type { CompiledSchema } from '../contract/json-schema.ts'
import type { Mask } from '../json/mask.ts'
import type { ToolContext, UpdateCallback } from './tool.ts'

/** What a tool gave back, in the one vocabulary of the gateway, before anything of it is trusted. */
export interface ToolOutput {
  content?: unknown
  details?: unknown
  structuredContent?: unknown
  isError?: unknown
  usage?: unknown
  terminate?: unknown
}

/** Input or output that a tool's own rules refuse, with every fault found. */
export class RefusedValueError extends Error {
  override readonly name = 'RefusedValueError'
  readonly faults: readonly Fault[]

  constructor (faults: readonly Fault[], cause?: unknown) {
    super(faults.map((fault) => `${fault.path || '/'}: ${fault.message}`).join('\n'), { cause })
    this.faults = faults
  }
}

/** A tool as the gateway runs it, whatever shape its author wrote. The adapters in `shapes/` make them. */
export interface RegisteredTool {
  readonly descriptor: ToolDescriptor
  /** Keywords of its schemas that are let pass without effect. */
  readonly ignoredKeywords: readonly string[]
  readonly sensitive: boolean
  /** What is masked of its calls; undefined where nothing is, so that they pay nothing. */
  readonly mask: Mask | undefined
  readonly outputValidation: OutputValidation
  readonly maxConcurrent: number | undefined
  /** Whether `execute` may look at its signal; where it surely does not, none is made for it. */
  readonly takesSignal: boolean
  readonly outputSchema: CompiledSchema | undefined
  readonly errorSchema: CompiledSchema | undefined
  /** What the author wrote. */
  readonly source: object

  /**
   * From the caller's input to what `execute` gets.
   * @throws {RefusedValueError} where the tool's rules refuse it, its own preparation failing included
   */
  parseInput (input: unknown): unknown
  /** Runs the author's `execute`; throws or rejects as it does. */
  execute (toolCallId: string, args: unknown, signal: AbortSignal, onUpdate: UpdateCallback, context: ToolContext): unknown
  /**
   * What `execute` gave, in the gateway's vocabulary.
   * @throws {RefusedValueError} where it is no result at all
   */
  toOutput (raw: unknown): ToolOutput
  /**
   * The author's own check of a success, where the shape has one beside a schema.
   * @throws {RefusedValueError} where it refuses
   */
  parseOutput?: (output: ToolOutput) => ToolOutput
}
