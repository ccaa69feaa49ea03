import type { AgentTool } from '@earendil-works/pi-agent-core'
import { Type, type Static } from '@sinclair/typebox'

const parameters = Type.Object({}, { additionalProperties: false })

const Lesson = Type.Object({
  name: Type.String({ description: 'Name of the function that the lesson looks at' }),
  parameters: Type.Array(Type.String(), { description: 'Names of its parameters, in order' }),
  summary: Type.String({ description: 'What the function does, in a sentence' }),
  emptyInputBehavior: Type.String({ description: 'What it does where it is given nothing' }),
  evidence: Type.String({ description: 'The line of source that shows it' })
}, { additionalProperties: false })

/** Written by hand: nothing is analysed here, so every call gives the same. */
const lesson: Static<typeof Lesson> = {
  name: 'average',
  parameters: ['numbers'],
  summary: 'Adds the numbers up and divides by how many there are.',
  emptyInputBehavior: 'Gives NaN, as 0 is divided by 0.',
  evidence: 'return sum / numbers.length'
}

/** A tool as pi's agents take it, served here unmodified: `name` is its id, and nothing of Toolgate is imported. */
const inspectLesson = {
  name: 'inspect_lesson',
  label: 'Inspect lesson',
  description: 'Gives a fixed teaching sample: the analysis of one small function. Takes no input.',
  parameters,
  outputSchema: Lesson,
  async execute () {
    return {
      // A model reads this line alone. Programs get the whole lesson below.
      content: [{ type: 'text', text: `Lesson on ${lesson.name}(): what it does with an empty list.` }],
      details: { origin: 'lesson-fixture' },
      structuredContent: { ...lesson, parameters: [...lesson.parameters] }
    }
  },
  replay: 'safe'
} satisfies AgentTool<typeof parameters>

export default inspectLesson
