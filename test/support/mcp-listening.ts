import { expect, vi } from 'vitest';

import { modern } from './mcp-call.ts';
import { patient } from './patient.ts';

/** An open `subscriptions/listen`; it ends with its `await using` scope. */
export interface McpListening extends AsyncDisposable {
  /** All that it has received so far. */
  readonly heard: () => string;
}

/**
 * Subscribes at an MCP endpoint to notifications, which are named as in the protocol. Resolves once the server has
 * acknowledged the subscription.
 *
 * MCP 2026-07-28 subscriptions
 */
export async function mcpListening(
  endpoint: string,
  { key, notifications }: { readonly key: string; readonly notifications: object },
): Promise<McpListening> {
  const request = modern('subscriptions/listen', { notifications });
  const ending = new AbortController();
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: { ...request.headers, 'content-type': 'application/json', 'x-api-key': key },
    body: request.body,
    signal: ending.signal,
  });
  let heard = '';
  const reading = (async () => {
    for await (const chunk of response.body ?? []) heard += Buffer.from(chunk).toString();
  })().catch(() => undefined);
  await vi.waitFor(() => expect(heard).toContain('acknowledged'), patient);
  return {
    heard: () => heard,
    async [Symbol.asyncDispose]() {
      ending.abort();
      await reading;
    },
  };
}
