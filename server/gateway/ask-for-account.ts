import { z } from 'zod';

import { connectElicitation, connectRequestKey } from './account-words.ts';
import type { MessageCall } from './call.ts';
import type { Era } from './era.ts';
import type { GatewayAnswer } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { jsonAnswer } from './relay.ts';

/** Methods whose result may ask for something first. MCP 2026-07-28, "Multi Round-Trip Requests" */
const mayAsk: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/**
 * What a caller gets whose person has not connected an account: the page to open, as a request to show it where the
 * caller can; anything else is thrown on. In a session the capability was said when it began.
 *
 * @throws {GatewayRefusal}
 */
export function askForAccount(
  error: unknown,
  { body, envelope }: Pick<MessageCall, 'body' | 'envelope'>,
  { era, inSession = false }: { era: Era; inSession?: boolean | undefined },
): GatewayAnswer {
  if (!(error instanceof GatewayRefusal) || error.code !== 'not_connected') throw error;
  const { details } = error;
  const showsUrls = inSession || saysItShowsUrls(body);
  if (era === 'legacy') throw new GatewayRefusal('not_connected', { ...details, showsUrls });
  if (!showsUrls || !mayAsk.has(envelope.method ?? '') || envelope.id === undefined) throw error;
  const params = connectElicitation(details.page ?? '');
  const result = JSON.stringify({
    resultType: 'input_required',
    inputRequests: { [connectRequestKey]: { method: 'elicitation/create', params } },
  });
  return jsonAnswer(200, `{"jsonrpc":"2.0","id":${envelope.id},"result":${result}}`);
}

const capabilities = z.object({ elicitation: z.object({ url: z.looseObject({}) }) });
const saying = z.object({
  params: z.union([
    z.object({ capabilities }),
    z.object({ _meta: z.object({ 'io.modelcontextprotocol/clientCapabilities': capabilities }) }),
  ]),
});

/** Whether a message says that its sender can show a person a URL. The body was scanned strictly before. */
export function saysItShowsUrls(body: Uint8Array): boolean {
  return saying.safeParse(JSON.parse(Buffer.from(body).toString('utf8'))).success;
}
