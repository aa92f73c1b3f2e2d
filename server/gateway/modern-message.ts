import { parseAccept } from './accept.ts';
import type { MessageCall } from './call.ts';
import type { GatewayAnswer } from './exchange.ts';
import { modernHeaders } from './forwarded-headers.ts';
import { hidesTools, withoutTools } from './hidden-tools.ts';
import { ownAnswer } from './own-answer.ts';
import { relay, send } from './relay.ts';

/**
 * A message of the modern era: forwarded as it is, each on its own. The caller cancels by closing the
 * answer's stream.
 *
 * MCP 2026-07-28 transports
 */
export async function modernMessage(call: MessageCall): Promise<GatewayAnswer> {
  const { request, envelope, upstream, body, ending, admission } = call;
  const { hiddenTools } = admission.server;
  if (envelope.method === 'subscriptions/listen') call.endless();
  request.gone.addEventListener('abort', () => ending.abort());
  if (request.gone.aborted) ending.abort();
  const headers = modernHeaders(envelope, request.headers);
  const answer = await send(upstream, { method: 'POST', headers, body, signal: ending.signal });
  if (hidesTools(envelope, answer, hiddenTools)) return withoutTools(answer, hiddenTools);
  return relay(await ownAnswer(answer, envelope), parseAccept(request.headers.accept));
}
