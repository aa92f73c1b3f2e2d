import { discard } from './relay.ts';
import type { Upstream } from './upstream.ts';

const timeoutMs = 2000;

/**
 * Tells an upstream that nobody will use a session of its any more; `headers` name the session.
 *
 * MCP 2025-11-25 transports, "Session Management"
 *
 * @throws {UpstreamError} when it cannot be told
 */
export async function endUpstreamSession(
  upstream: Upstream,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const { body } = await upstream.send({ method: 'DELETE', headers, signal });
  await discard(body);
}
