import type { Call } from './call.ts';
import type { GatewayAnswer } from './exchange.ts';
import { legacyHeaders } from './forwarded-headers.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { sessionOf, type LegacySessions } from './legacy-sessions.ts';
import { discard, relay, send } from './relay.ts';

/**
 * `GET` listens to what the upstream of a session says unasked; `DELETE` ends the session.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server", "Session Management"
 *
 * @throws {GatewayRefusal} `unknown_session`, `method_not_allowed`
 */
export async function legacyStream(call: Call, sessions: LegacySessions): Promise<GatewayAnswer> {
  const { request, upstream, ending } = call;
  const session = sessionOf(call, sessions);
  if (!session) throw new GatewayRefusal('unknown_session');
  const headers = legacyHeaders(request.headers, session.upstreamSessionId);
  if (request.method === 'DELETE') {
    sessions.close(session.id);
    const answer = await send(upstream, { method: 'DELETE', headers, signal: ending.signal });
    await discard(answer.body);
    return { status: 204, headers: {} };
  }
  call.endless();
  request.gone.addEventListener('abort', () => ending.abort());
  const lastEventId = request.headers['last-event-id'];
  const listening = {
    ...headers,
    accept: 'text/event-stream',
    ...(typeof lastEventId === 'string' && { 'last-event-id': lastEventId }),
  };
  const answer = await send(upstream, { method: 'GET', headers: listening, signal: ending.signal });
  if (answer.status === 405) {
    await discard(answer.body);
    throw new GatewayRefusal('method_not_allowed');
  }
  return relay(answer, { json: false, events: true }, session);
}
