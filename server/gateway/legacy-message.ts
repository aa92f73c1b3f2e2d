import { parseAccept } from './accept.ts';
import { saysItShowsUrls } from './ask-for-account.ts';
import type { MessageCall } from './call.ts';
import type { Cancellations } from './cancellations.ts';
import type { GatewayAnswer, GatewayRequest } from './exchange.ts';
import { legacyHeaders, traceHeaders } from './forwarded-headers.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { hidesTools, withoutTools } from './hidden-tools.ts';
import type { Envelope } from './json-scan.ts';
import { sessionOf, type LegacySession, type LegacySessions } from './legacy-sessions.ts';
import { LostCaller } from './lost-caller.ts';
import { ownAnswer } from './own-answer.ts';
import type { PlainLinks } from './plain-links.ts';
import { plainRequest } from './plain-request.ts';
import { takesPriming } from './takes-priming.ts';
import type { UpstreamAnswer } from './upstream.ts';
import { followed } from './event-stream.ts';
import { endUpstreamSession } from './end-upstream-session.ts';
import { discard, relay, send } from './relay.ts';
import { upstreamPlace } from './upstream-place.ts';

export interface LegacyRooms {
  readonly sessions: LegacySessions;
  readonly links: PlainLinks;
  readonly cancellations: Cancellations;
}

/**
 * A message of the legacy era: in its session where it names one, else with whatever handshake the
 * upstream wants. A lost stream cancels nothing here; `notifications/cancelled` does.
 *
 * MCP 2025-11-25 transports, "Session Management", "Cancellation"
 *
 * @throws {GatewayRefusal} `unknown_session`, `unexpected_response`
 */
export async function legacyMessage(
  call: MessageCall,
  { sessions, links, cancellations }: LegacyRooms,
): Promise<GatewayAnswer> {
  const { request, envelope, upstream, body, ending, owner, admission } = call;
  const session = sessionOf(call, sessions);
  if (envelope.kind === 'response' && !session?.pending.delete(envelope.id ?? '')) {
    throw new GatewayRefusal('unexpected_response');
  }
  const caller = new LostCaller(() => ending.abort());
  request.gone.addEventListener('abort', () => caller.left());
  if (!session) {
    // An upstream without a session has nobody to tell: its own request is what ends.
    if (envelope.method === 'notifications/cancelled') {
      cancellations.cancel(owner, envelope.requestId);
      return { status: 202, headers: {} };
    }
    call.afterwards.push(cancellations.expect(owner, envelope.id, ending));
    if (isPlain(envelope, request)) {
      const { hiddenTools } = admission.server;
      const { signal } = ending;
      const place = upstreamPlace(admission.server);
      const trace = traceHeaders(request.headers);
      const plain = { body, envelope, upstream, key: owner, place, hiddenTools, signal, trace };
      return plainRequest(plain, links);
    }
  }
  return inSession(call, session, sessions, caller);
}

async function inSession(
  call: MessageCall,
  session: LegacySession | undefined,
  sessions: LegacySessions,
  caller: LostCaller,
): Promise<GatewayAnswer> {
  const { request, envelope, upstream, body, ending, admission } = call;
  const { hiddenTools, id: serverId } = admission.server;
  const headers = {
    ...legacyHeaders(request.headers, session?.upstreamSessionId),
    ...traceHeaders(request.headers),
  };
  const answer = await send(upstream, { method: 'POST', headers, body, signal: ending.signal });
  if (session && answer.status === 404) {
    await discard(answer.body);
    session.streams.endUnasked();
    sessions.close(session.id);
    throw new GatewayRefusal('unknown_session');
  }
  if (hidesTools(envelope, answer, hiddenTools)) return withoutTools(answer, hiddenTools);
  const accepts = parseAccept(request.headers.accept);
  const following = (within: LegacySession) => (stream: UpstreamAnswer['body']) =>
    followed(
      stream,
      within,
      within.streams.open('answer', caller, envelope.id),
      takesPriming(request),
    );
  const own = await ownAnswer(answer, envelope);
  const opens = envelope.method === 'initialize' && answer.status === 200;
  if (!opens || answer.sessionId === undefined) {
    return relay(own, accepts, session && following(session));
  }
  const { sessionId } = answer;
  const opened = sessions.open(admission.principal, serverId, sessionId, {
    place: upstreamPlace(admission.server),
    end: () => endUpstreamSession(upstream, legacyHeaders(request.headers, sessionId)),
  });
  opened.showsUrls = saysItShowsUrls(body);
  const relayed = await relay(own, accepts, following(opened));
  return { ...relayed, headers: { ...relayed.headers, 'Mcp-Session-Id': opened.id } };
}

/** No handshake of any kind: the gateway makes the one that the upstream wants. */
function isPlain(envelope: Envelope, { headers }: GatewayRequest): boolean {
  return (
    envelope.method !== 'initialize' &&
    envelope.meta === undefined &&
    headers['mcp-protocol-version'] === undefined
  );
}
