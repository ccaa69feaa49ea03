import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { AgentTool } from '@earendil-works/pi-agent-core'
import { asAgentTools, createClient, type RemoteAgentTool } from '../../../src/client.ts'
import type { GatewayOptions } from '../../../src/gateway.ts'
import { startGateway } from '../../e2e/harness.ts'
import { calling, perform, saying, Stage, timeless, type Run, type Scene } from './agents.ts'
import { differences } from './differences.ts'
import { scenes } from './scenes.ts'

/** The same tools, from a gateway that has them. */
async function throughGateway (t: TestContext, tools: AgentTool<any>[], options: GatewayOptions = {}): Promise<RemoteAgentTool[]> {
  const { url } = await startGateway(t, { tools, ...options })
  return await asAgentTools(createClient({ url }), tools.map(({ name }) => name))
}

describe("a pi agent with a gateway's tools, beside one that has them itself", () => {
  for (const [name, scene] of Object.entries(scenes)) {
    it(`${name}: the same events, transcript and requests to the model`, async (t) => {
      const stage = new Stage()
      const local: Scene = scene(stage)
      const here = timeless(await perform(local, stage))
      const notesHere = [...stage.notes]
      const there = timeless(await perform({ ...local, tools: await throughGateway(t, local.tools) }, stage))
      assert.deepEqual(there.events, here.events)
      assert.deepEqual(there.messages, here.messages)
      assert.deepEqual(there.sent, here.sent)
      assert.deepEqual(stage.notes, notesHere)
      assert.equal(JSON.stringify(there.sent), JSON.stringify(here.sent))
    })
  }
})

describe('a remote tool and a local one differ', () => {
  for (const [name, { why, tool, args, options, gateway, aborts, here, there }] of Object.entries(differences)) {
    it(`${name}: ${why}`, async (t) => {
      const stage = new Stage()
      const scene: Scene = {
        tools: [tool],
        prompts: [[calling(['a', 'tool', args]), saying('Done.')]],
        ...(options === undefined ? {} : { options }),
        onMoment: (moment, agent) => { if (aborts === true && moment === 'update a 1') agent.abort() }
      }
      const end = ({ events }: Run) => events.flatMap((event) => event.type === 'tool_execution_end' ? [{ result: event.result, isError: event.isError }] : [])
      assert.deepEqual(end(await perform(scene, stage)), [here])
      assert.deepEqual(end(await perform({ ...scene, tools: await throughGateway(t, [tool], gateway) }, stage)), [there])
    })
  }
})
