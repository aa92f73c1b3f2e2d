import { readMessage, stringAt, textAt, type Message } from '#jsonrpc/message';

type Json = Record<string, unknown>;

/** Newest first. */
const legacyRevisions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07'];
const lists = ['tools', 'resources', 'prompts'];

/**
 * The answer to an assistant's `initialize`, made of what a modern server said of itself: the revision
 * that the assistant asked for, as it is we who speak it, and lists that may change.
 *
 * MCP 2025-11-25 lifecycle, MCP 2026-07-28 server/discover
 */
export function initializeAnswer(initialize: Message, discovered: Message): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const protocolVersion = legacyRevisions.find((known) => known === asked) ?? legacyRevisions[0];
  const result: Json = {
    protocolVersion,
    capabilities: capabilities(discovered),
    serverInfo: object(
      textAt(discovered, 'result', '_meta', 'io.modelcontextprotocol/serverInfo'),
    ) ??
      object(textAt(discovered, 'result', 'serverInfo')) ?? { name: 'unnamed', version: '0' },
  };
  const instructions = stringAt(discovered, 'result', 'instructions');
  if (instructions !== undefined) result['instructions'] = instructions;
  const text = JSON.stringify(result);
  return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${initialize.id},"result":${text}}`));
}

function capabilities(discovered: Message): Json {
  const said = object(textAt(discovered, 'result', 'capabilities')) ?? {};
  const changing = lists.flatMap((name) => {
    const list = said[name];
    return isObject(list) ? [[name, { ...list, listChanged: true }] as const] : [];
  });
  return { ...said, ...Object.fromEntries(changing) };
}

function object(json: string | undefined): Json | undefined {
  const value: unknown = json === undefined ? undefined : JSON.parse(json);
  return isObject(value) ? value : undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
