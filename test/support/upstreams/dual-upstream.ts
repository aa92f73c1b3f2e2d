import { createMcpHandler } from '@modelcontextprotocol/server';
import { fetchHandle } from '../fetch-handle.ts';
import { recordingServer } from '../recording-server.ts';
import { modernServer } from './modern-server.ts';
import { SlowCalls } from './slow-calls.ts';
import type { Upstream } from './upstream.ts';

/** Speaks MCP 2026-07-28 and, unless `legacy` is `reject`, older revisions without sessions. */
export async function dualUpstream({
  legacy = 'stateless',
}: {
  legacy?: 'stateless' | 'reject';
} = {}): Promise<Upstream> {
  const slow = new SlowCalls();
  const handler = createMcpHandler(({ era }) => modernServer(slow, era), { legacy });
  const front = await recordingServer(fetchHandle(handler));
  return {
    ...front,
    slow,
    async announceTools() {
      handler.notify.toolsChanged();
    },
    async close() {
      await handler.close();
      await front.close();
    },
  };
}
