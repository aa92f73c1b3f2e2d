import { parseAccept } from './accept.ts';
import type { Call, MessageCall } from './call.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { scanMessage } from './json-scan.ts';

/**
 * The message of a POST, once its headers allow one and an answer to it.
 *
 * @throws {GatewayRefusal} `unsupported_media_type`, `not_acceptable`, `too_large`, `not_json`, `not_a_message`
 */
export async function readMessage(call: Call): Promise<MessageCall> {
  const { headers } = call.request;
  const type = headers['content-type'];
  const isJson =
    type === 'application/json' || type?.split(';')[0]?.trim().toLowerCase() === 'application/json';
  if (!isJson) throw new GatewayRefusal('unsupported_media_type');
  const accepts = parseAccept(headers.accept);
  if (!accepts.json && !accepts.events) throw new GatewayRefusal('not_acceptable');
  const body = await call.request.readBody();
  const scan = scanMessage(body);
  if (scan.outcome === 'message') return { ...call, body, envelope: scan.envelope };
  const code = scan.code === -32700 ? 'not_json' : 'not_a_message';
  throw new GatewayRefusal(code, { detail: scan.reason });
}
