import { Type } from '@sinclair/typebox'

/** The work that every server under measurement does for a call: the same schemas, the same tool body. */
export const Input = Type.Object({ a: Type.Number(), b: Type.Number() }, { additionalProperties: false })
export const Output = Type.Object({ sum: Type.Number() }, { additionalProperties: false })

export function add (input: { a: number, b: number }) {
  const sum = input.a + input.b
  return {
    content: [{ type: 'text' as const, text: `${input.a} + ${input.b} = ${sum}` }],
    details: null,
    structuredContent: { sum }
  }
}

/** Tells the parent where the server listens, and by what it lets in; then does what it is told: `{ type, ... }` messages. */
export function report (port: number, token?: string): void {
  process.send!({ type: 'listening', port, token })
}

/** Answers `memory` messages with the bytes that the process holds after a full collection. */
export function answerMemory (): void {
  process.on('message', (message: { type: string }) => {
    if (message.type !== 'memory') return
    for (let round = 0; round < 4; round++) globalThis.gc!()
    const { heapUsed, external } = process.memoryUsage()
    process.send!({ type: 'memory', bytes: heapUsed + external })
  })
}
