import type { EndSignal } from '#model/ending';
import type { IncomingHttpHeaders } from 'node:http';

import {
  type Era,
  decodeHeader,
  legacyVersions,
  mirroredName,
  modernVersions,
} from 'latchkey-mcp/headers';
import { type Envelope, type Message, scanMessage } from 'latchkey-mcp/message';
import { type Awaitable, whenReady } from '#model/awaitable';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { GatewayRequest } from './request.ts';

/**
 * Checks `Content-Type` and `Accept`, then reads the message of a POST. `arrived` is called with the length
 * of each part; `signal` ends the reading.
 *
 * @throws {GatewayRefusal} `unsupported_media_type`, `not_acceptable`, `too_large`, `not_json`, `not_a_message`, and what
 *   `arrived` throws
 */
export function readMessage(
  request: GatewayRequest,
  arrived?: (bytes: number) => void,
  signal?: EndSignal,
): Awaitable<Message> {
  const { headers } = request;
  const type = headers['content-type'];
  const isJson =
    type === 'application/json' || type?.split(';')[0]?.trim().toLowerCase() === 'application/json';
  if (!isJson) throw new GatewayRefusal('unsupported_media_type');
  const accepts = parseAccept(headers.accept);
  if (!accepts.json && !accepts.events) throw new GatewayRefusal('not_acceptable');
  return whenReady(request.readBody(arrived, signal), (body) => scanned(body, request.message));
}

function scanned(body: Buffer, known?: Message): Message {
  if (known?.body === body) return known;
  const scan = scanMessage(body);
  if (scan.outcome === 'message') return { body, envelope: scan.envelope };
  const code = scan.code === -32700 ? 'not_json' : 'not_a_message';
  throw new GatewayRefusal(code, { detail: scan.reason });
}

/**
 * The era of a message. A version named in `_meta`, or a modern one in the header, makes it modern; the headers must
 * then repeat what the body says, so that readers of the headers and readers of the body agree. A plain request, with
 * neither, is legacy.
 *
 * MCP 2026-07-28 transports, "Request metadata"
 *
 * @throws {GatewayRefusal} `unsupported_version`, `header_mismatch`, `bad_meta`
 */
export function eraOf(envelope: Envelope, headers: IncomingHttpHeaders): Era {
  const header = single(headers['mcp-protocol-version']);
  const named = envelope.protocolVersion;
  const said = named ?? header;
  if (named !== undefined && header !== undefined) {
    expectHeader('MCP-Protocol-Version', header, named);
  }
  const known = named === undefined ? [...modernVersions, ...legacyVersions] : modernVersions;
  if (said !== undefined && !known.includes(said)) {
    throw new GatewayRefusal('unsupported_version', { requested: said });
  }
  const isModern = named !== undefined || (header !== undefined && modernVersions.includes(header));
  if (!isModern) return 'legacy';
  if (envelope.kind === 'request' && named === undefined) {
    throw new GatewayRefusal('bad_meta', {
      detail: 'params._meta has no io.modelcontextprotocol/protocolVersion',
    });
  }
  if (named !== undefined) expectHeader('MCP-Protocol-Version', header, named);
  expectHeader('Mcp-Method', single(headers['mcp-method']), envelope.method);
  const name = mirroredName(envelope);
  if (name !== undefined) expectHeader('Mcp-Name', decodeHeader(single(headers['mcp-name'])), name);
  return 'modern';
}

function expectHeader(name: string, header: string | undefined, body: string | undefined): void {
  if (header !== undefined && header === body) return;
  const problem = header === undefined ? 'is missing' : 'differs from the body';
  throw new GatewayRefusal('header_mismatch', { detail: `the header ${name} ${problem}` });
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

/** The two forms in which a message may be answered. */
export interface Accepts {
  readonly json: boolean;
  readonly events: boolean;
}

const jsonAlone: Accepts = { json: true, events: false };
const either: Accepts = { json: true, events: true };

/**
 * Reads which forms an `Accept` header allows. No header, or only a wildcard, means JSON: events go only to callers that ask for
 * them. RFC 9110 §12.5.1
 */
export function parseAccept(header: string | undefined): Accepts {
  if (header === undefined || header.trim() === '') return jsonAlone;
  // The usual form, which nearly every MCP client sends.
  if (header === 'application/json, text/event-stream') return either;
  const ranges = new Map<string, boolean>();
  for (const range of header.toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    ranges.set(type, !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter)));
  }
  // The most specific range decides, so that `application/json;q=0, */*` means no JSON.
  const allows = (...types: string[]) =>
    ranges.get(types.find((type) => ranges.has(type)) ?? '') ?? false;
  return {
    json: allows('application/json', 'application/*', '*/*'),
    events: allows('text/event-stream', 'text/*'),
  };
}
