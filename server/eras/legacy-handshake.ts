import { endUpstreamSession } from '#gateway/end-upstream-session';
import { legacyVersions } from '#gateway/era';
import { postHeaders } from '#gateway/forwarded-headers';
import { failure } from '#gateway/relay';
import type { Upstream, UpstreamAnswer } from '#gateway/upstream';
import { discardAnswer } from './discard-answer.ts';
import { gatewayWords } from './discover.ts';
import type { ClientWords } from './envelope.ts';
import { stringAt, type Message } from './message.ts';
import { carriesMessages, said } from './said.ts';

const timeoutMs = 30_000;

/** What a handshake with an upstream of the older era leaves behind. */
export interface Handshake {
  readonly upstream: Upstream;
  readonly client: ClientWords;
  /** The upstream's answer to `initialize`. */
  readonly initialized: Message;
  /** Absent when the upstream keeps no sessions. */
  readonly sessionId: string | undefined;
}

/**
 * Says `initialize` for a client of the modern era; `undefined` when the upstream refuses it.
 *
 * MCP 2025-11-25 lifecycle
 *
 * @throws {UpstreamError} when it cannot be reached
 */
export async function legacyHandshake(
  upstream: Upstream,
  client: ClientWords,
): Promise<Handshake | undefined> {
  const clientInfo = client.clientInfo ?? gatewayWords.clientInfo;
  const params = `{"protocolVersion":"${legacyVersions[0]}","capabilities":${client.capabilities},"clientInfo":${clientInfo}}`;
  const answer = await upstream.send({
    method: 'POST',
    headers: postHeaders,
    body: Buffer.from(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const { sessionId } = answer;
  const initialized = await responseOf(answer);
  const version = initialized && stringAt(initialized, 'result', 'protocolVersion');
  if (initialized && version !== undefined && legacyVersions.includes(version)) {
    return { upstream, client, initialized, sessionId };
  }
  if (sessionId !== undefined) {
    const headers = { ...postHeaders, 'mcp-session-id': sessionId };
    await endUpstreamSession(upstream, headers).catch(() => undefined);
  }
  return undefined;
}

/** @throws {GatewayRefusal} `upstream_busy`, `upstream_failed` for what says nothing of the era */
async function responseOf(answer: UpstreamAnswer): Promise<Message | undefined> {
  if (!carriesMessages(answer)) {
    const { status } = answer;
    await discardAnswer(answer);
    if (status === 401 || status === 403 || status === 429 || status >= 500) throw failure(answer);
    return undefined;
  }
  for await (const message of said(answer)) {
    if (message.envelope.kind === 'response') return message;
  }
  return undefined;
}
