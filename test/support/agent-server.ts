import { z } from 'zod';

import { modern, mcpCall, type McpAnswer } from './mcp-call.ts';
import { rawAgent, type RawAgent, type RawAgentOptions } from './raw-agent.ts';
import { runningServer, type RunningServer } from './running-server.ts';

const made = z.object({ id: z.string(), key: z.string() });

/** A real server with the organization `acme`, the agent `berlin`, and the server `acme/sales`, which is bound to that agent. */
export interface AgentServer extends RunningServer {
  readonly agent: z.infer<typeof made>;
  /** An MCP key of `acme/sales`. */
  readonly mcpKey: string;
  readonly endpoint: string;
  readonly connect: (but?: RawAgentOptions) => Promise<RawAgent>;
  /** A tool call, as a modern client makes it, with `nonce` in its arguments. */
  readonly call: (nonce?: string, but?: { key?: string; endpoint?: string }) => Promise<McpAnswer>;
}

export async function agentServer(): Promise<AgentServer> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await runningServer());
  const { base } = server;
  const command = (...words: string[]) => server.command(...words);
  await command('organization', 'create', 'acme');
  const agent = made.parse(await command('agent', 'create', 'acme/berlin'));
  await command('server', 'create', 'acme/sales', '--agent', 'berlin');
  const { key: mcpKey } = made.parse(await command('key', 'create', 'acme/sales', '--name', 'k'));
  const endpoint = `${base}/mcp/acme/sales`;
  const started = stack.move();
  return {
    ...server,
    agent,
    mcpKey,
    endpoint,
    connect: (but = {}) => rawAgent(base, { key: agent.key, servers: ['sales'], ...but }),
    call: (nonce = 'n', but = {}) =>
      mcpCall(but.endpoint ?? endpoint, {
        key: but.key ?? mcpKey,
        ...modern('tools/call', { name: 'echo', arguments: { nonce } }),
      }),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}
