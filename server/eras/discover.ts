import type { Upstream } from '#gateway/upstream';
import { metaOf, modernVersion, type ClientWords } from './envelope.ts';
import { messageOf, valueAt, type Message } from './message.ts';
import { modernPost } from './modern-request.ts';
import { carriesMessages, said } from './said.ts';
import { discardAnswer } from './discard-answer.ts';
import { withMembers } from './with-members.ts';

const timeoutMs = 30_000;

/** Who asks when the gateway asks for itself. */
export const gatewayWords: ClientWords = {
  capabilities: '{}',
  clientInfo: JSON.stringify({ name: 'latchkey-server', version: '1' }),
  logLevel: undefined,
};

/**
 * What an upstream answered to `server/discover`: itself, when it speaks our revision of the modern era;
 * `refused`, when it does not know that question; `unclear`, when it is busy or wants something else first.
 */
export type Discovered =
  | { readonly outcome: 'modern'; readonly answer: Message }
  | { readonly outcome: 'refused' | 'unclear' };

/**
 * MCP 2026-07-28 server/discover
 *
 * @throws {UpstreamError} when it cannot be asked
 */
export async function discover(
  upstream: Upstream,
  client: ClientWords = gatewayWords,
  signal: AbortSignal = AbortSignal.timeout(timeoutMs),
): Promise<Discovered> {
  const nothing = Buffer.alloc(0);
  const meta = withMembers(nothing, undefined, metaOf(client));
  const request = messageOf(
    `{"jsonrpc":"2.0","id":"discover","method":"server/discover","params":{"_meta":${meta}}}`,
  );
  const answer = await upstream.send(modernPost(request, signal));
  if (!carriesMessages(answer)) {
    await discardAnswer(answer);
    const { status } = answer;
    const isUnclear = status === 401 || status === 403 || status === 429 || status >= 500;
    return { outcome: isUnclear ? 'unclear' : 'refused' };
  }
  for await (const message of said(answer)) {
    if (message.envelope.kind !== 'response') continue;
    const versions = valueAt(message, 'result', 'supportedVersions');
    const isModern = Array.isArray(versions) && versions.includes(modernVersion);
    return isModern ? { outcome: 'modern', answer: message } : { outcome: 'refused' };
  }
  return { outcome: 'refused' };
}
