import type { RegisteredTool } from '../registered-tool.ts'
import type { AnyTool } from '../registry.ts'

/** A tool that a source found, with the name of where in the source it stood. */
export interface FoundTool {
  /** As its author wrote it, or as a registry in the source has registered it already. */
  tool: AnyTool | RegisteredTool
  origin: string
}

/** What kept a source, or one tool of it, out. */
export interface LoadFailure {
  file: string
  tool?: string
  reason: string
  /** File and line, where they are known. */
  at?: string
}

export interface Found {
  tools: FoundTool[]
  failures: LoadFailure[]
  /**
   * Makes it as if this load had not been, where its tools are not put in force: those from before get what they got, and
   * the next load finds what this one did. Called once at most, and in the reverse order of loads.
   */
  revert?: () => void
}

/** Where tools come from. */
export interface ToolSource {
  /** Names the source in logs, before the file. */
  readonly name: string
  /**
   * Finds the tools there are now; called at the start and at each reload. One module that fails does not stop the others: it is told in `failures`.
   * @throws {GatewayError} `source_failed` where the source as a whole cannot be read
   */
  load (): Promise<Found>
}
