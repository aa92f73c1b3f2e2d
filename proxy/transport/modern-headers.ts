import { fieldValue } from './field-value.ts';
import { modernVersion, stringAt, type Message } from 'latchkey-mcp/raw-message';

/** Which parameter of a method `Mcp-Name` repeats. */
const named = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]);

/**
 * The headers that repeat what the body of a modern message says, so that gateways need not read
 * it; `undefined` for a message of the era before.
 *
 * MCP 2026-07-28 transports, standard request headers
 */
export function modernHeaders(message: Message): Record<string, string> | undefined {
  const version = modernVersion(message);
  if (version === undefined) return undefined;
  const method = message.method ?? '';
  const parameter = named.get(method);
  const name = parameter && stringAt(message, 'params', parameter);
  return {
    'mcp-protocol-version': fieldValue(version),
    'mcp-method': fieldValue(method),
    ...(name !== undefined && { 'mcp-name': fieldValue(name) }),
  };
}
