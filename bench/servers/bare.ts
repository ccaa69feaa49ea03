import Fastify from 'fastify'
import { Type } from '@sinclair/typebox'
import { TypeBoxValidatorCompiler, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { add, Input, Output, report } from './workload.ts'

/** The reference of the invoke rows: what Fastify does with the same body, schemas and tool, and nothing else. */
const app = Fastify().withTypeProvider<TypeBoxTypeProvider>().setValidatorCompiler(TypeBoxValidatorCompiler)

app.post('/tools/add/invoke', {
  schema: {
    body: Type.Object({ input: Input }, { additionalProperties: false }),
    response: {
      200: Type.Object({
        content: Type.Array(Type.Object({ type: Type.Literal('text'), text: Type.String() })),
        details: Type.Null(),
        structuredContent: Output,
        isError: Type.Boolean()
      })
    }
  }
}, async (request) => ({ ...add(request.body.input), isError: false }))

await app.listen({ port: 0, host: '127.0.0.1' })
report((app.server.address() as { port: number }).port)
