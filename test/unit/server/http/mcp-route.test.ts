import fastify from 'fastify';
import { expect, test } from 'vitest';

import type { GatewayAnswer } from '#server/gateway/request';
import { mcpRoute } from '#server/http/mcp-route';

/** The response of the route alone, in front of a gateway that answers with `handle`. */
async function asked(handle: () => Promise<GatewayAnswer>): Promise<Response> {
  const app = fastify();
  const toPages = async () => {};
  mcpRoute(app, { gateway: { handle }, maxBodyBytes: 1000, allowedOrigins: [], toPages });
  const base = await app.listen({ host: '127.0.0.1', port: 0 });
  try {
    return await fetch(`${base}/mcp/acme/sales`, { method: 'POST', body: '{}' });
  } finally {
    app.server.closeAllConnections();
    await app.close();
  }
}

test('an answer is sent with its status', async () => {
  expect(await asked(async () => ({ status: 202, headers: {} }))).toMatchObject({ status: 202 });
});

test.each<[string, () => Promise<GatewayAnswer>]>([
  ['cannot be sent', async () => ({ status: 200, headers: { 'X-Odd': 'a\nb' }, body: 'x' })],
  ['does not come', () => Promise.reject(new Error('a bug'))],
])('an answer that %s ends its connection', async (_, handle) => {
  await expect(asked(handle)).rejects.toThrow('fetch failed');
});
