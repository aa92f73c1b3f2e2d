import { mirroredMember, type MirroredParameter } from 'latchkey-mcp/headers';
import { modernVersion, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';

/**
 * The headers that repeat what the body of a modern message says, so that gateways need not read
 * it; `undefined` for a message of the legacy era.
 *
 * MCP 2026-07-28 transports, standard request headers
 */
export function modernHeaders(message: Message): Record<string, string> | undefined {
  const version = modernVersion(message);
  if (version === undefined) return undefined;
  const method = message.method ?? '';
  const member = mirroredMember(method);
  const name = member && stringAt(message, 'params', member);
  return {
    'mcp-protocol-version': fieldValue(version),
    'mcp-method': fieldValue(method),
    ...(name !== undefined && { 'mcp-name': fieldValue(name) }),
  };
}

/** The headers that repeat arguments of a call; what is absent or `null` has none. SEP-2243 */
export function paramHeaders(
  call: Message,
  parameters: readonly MirroredParameter[],
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { path, header } of parameters) {
    const value = plainText(textAt(call, 'params', 'arguments', ...path));
    if (value !== undefined) headers[header] = fieldValue(value);
  }
  return headers;
}

/** Integers that a number cannot hold exactly have no header, as servers compare numbers. */
function plainText(json: string | undefined): string | undefined {
  const value: unknown = json === undefined ? undefined : JSON.parse(json);
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'number' || !Number.isFinite(value)) return undefined;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
}

/**
 * `text` as the value of a header field. What cannot stand there as it is, or would be read as encoded,
 * is sent in base64.
 *
 * MCP 2026-07-28 transports, value encoding
 */
function fieldValue(text: string): string {
  const plain = /^[\x20-\x7e\t]+$/.test(text) && text === text.trim();
  if (plain && !(text.startsWith('=?base64?') && text.endsWith('?='))) return text;
  return `=?base64?${Buffer.from(text).toString('base64')}?=`;
}
