import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { type GatewayUnderTest, gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, rpc } from '#support/mcp-call';
import { recordingUpstream, sendJson } from '#support/upstreams/recording-upstream';

const versions = { 'mcp-protocol-version': '2025-06-18' };

/** An upstream that answers every call, and a server in front of it that is sent calls until it is gone. */
async function calledUntilGone(
  end: (gateway: GatewayUnderTest) => Promise<unknown>,
  calls: number,
) {
  const upstream = await recordingUpstream();
  onTestFinished(() => upstream[Symbol.asyncDispose]());
  upstream.answer = ({ body }, response) => {
    const id = /"id":(\d+)/.exec(body.toString())?.[1] ?? 'null';
    sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":{"content":[]}}`);
  };
  const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
  onTestFinished(() => gateway[Symbol.asyncDispose]());
  const { endpoint, key } = gateway;
  let ended: Promise<unknown> | undefined;
  /** When each call was answered. */
  const answeredAtMs = new Map<string, number>();
  let sent = 0;
  const caller = async () => {
    for (;;) {
      const tool = `tool-${(sent += 1)}`;
      const body = rpc('tools/call', { name: tool });
      const answer = await mcpCall(endpoint, { key, body, headers: versions }).catch(
        () => undefined,
      );
      if (answer?.status !== 200) return;
      answeredAtMs.set(tool, Date.now());
      if (answeredAtMs.size === calls) ended = end(gateway);
    }
  };
  await Promise.all(Array.from({ length: 8 }, caller));
  const goneAtMs = Date.now();
  // It goes on writing after it has stopped listening.
  await ended;
  const stores = await gateway.openStores();
  onTestFinished(() => stores.close());
  const rows = await stores.db.selectFrom('call_record').select('subject').execute();
  return { answeredAtMs, goneAtMs, recorded: rows.map(({ subject }) => subject ?? '') };
}

test('activity: a server that is stopped has recorded every call that it answered, once', async () => {
  const { answeredAtMs, recorded } = await calledUntilGone(({ program }) => program.end(), 500);

  expect(recorded).toHaveLength(new Set(recorded).size);
  expect([...answeredAtMs.keys()].filter((tool) => !recorded.includes(tool))).toEqual([]);
});

test('activity: a server that is killed loses no call but those of its last seconds, and records none twice', async () => {
  const { answeredAtMs, goneAtMs, recorded } = await calledUntilGone(async ({ pid }) => {
    await pause(4000);
    process.kill(pid, 'SIGKILL');
  }, 1);
  const lost = [...answeredAtMs].filter(([tool]) => !recorded.includes(tool));

  expect(recorded.length).toBeGreaterThan(0);
  expect(recorded).toHaveLength(new Set(recorded).size);
  // A second until they are written, and what a busy machine adds.
  for (const [, atMs] of lost) expect(goneAtMs - atMs).toBeLessThan(3000);
});
