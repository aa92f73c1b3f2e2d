import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  CreateMessageRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { inherited } from '../programs.ts';
import { launcher } from '../proxy-process.ts';
import type { StoryWorld } from './story-world.ts';

/** An assistant of the legacy era over the real proxy. */
export interface StoryAssistant extends AsyncDisposable {
  readonly client: Client;
  /** Unexpected messages: a second answer would be among them. */
  readonly surprises: readonly string[];
  /** Steps of progress that the client read together with the answer, and therefore handled after the answer. */
  readonly lateSteps: readonly number[];
  /** Calls the tool `echo` of `everything`; the text of the answer. */
  echo(message: string): Promise<string>;
  /** Has a child of `everything` write a log message four times a second, from now on. */
  startLog(): Promise<void>;
  /** How many log messages came so far. */
  readonly logged: number;
}

export async function storyAssistant(
  { server, mcpKeys, folder }: StoryWorld,
  name: 'everything' | 'files' = 'everything',
): Promise<StoryAssistant> {
  const surprises: string[] = [];
  const client = new Client({ name: 'story', version: '1' }, { capabilities: { sampling: {} } });
  const lateSteps: number[] = [];
  Object.assign(client, {
    onerror(error: unknown) {
      const late = /progress notification for an unknown token: .*"progress":(\d+)/.exec(
        String(error),
      );
      if (late) lateSteps.push(Number(late[1]));
      else surprises.push(String(error));
    },
  });
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    role: 'assistant',
    model: 'm',
    content: { type: 'text', text: 'because' },
  }));
  let logged = 0;
  client.setNotificationHandler(LoggingMessageNotificationSchema, () => void (logged += 1));
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [launcher, `${server.base}/mcp/acme/${name}`],
    env: { ...inherited, HOME: folder, LATCHKEY_API_KEY: mcpKeys[name] },
    stderr: 'ignore',
    maxBufferSize: 64 * 1024 * 1024,
  });
  await client.connect(transport);
  return {
    client,
    surprises,
    lateSteps,
    echo: async (message) =>
      textOf(await client.callTool({ name: 'echo', arguments: { message } })),
    async startLog() {
      const said = textOf(await client.callTool({ name: 'toggle-simulated-logging' }));
      if (!said.startsWith('Started')) throw new Error(said);
    },
    get logged() {
      return logged;
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/** The first text of a tool's answer. */
export function textOf({ content }: Awaited<ReturnType<Client['callTool']>>): string {
  return Array.isArray(content) ? String(content[0]?.text) : '';
}
