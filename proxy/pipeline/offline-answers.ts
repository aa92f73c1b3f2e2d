import {
  modernVersion,
  readMessage,
  stringAt,
  textAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import { madeMessage, withMember } from './messages.ts';
import { listKinds, type ListMethod } from './offline-lists.ts';
import { signInTool, type ToolSubject } from './sign-in-tool.ts';

/** What is said in the place of a server that cannot be asked. */

/** The revisions that have `initialize`, newest first. */
const revisions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** The handshake kept from the last run. It promises to tell of changes, as there will be some. */
export function cachedHandshake(kept: Message, { tools }: { tools: boolean }): Message {
  let { bytes } = kept;
  for (const kind of listKinds)
    if (textAt(kept, 'result', 'capabilities', kind) !== undefined || (tools && kind === 'tools'))
      bytes = withMember(bytes, ['result', 'capabilities', kind, 'listChanged'], 'true');
  return unlasting(readMessage(bytes));
}

/** The handshake of a server that was never seen; which lists it has is known once it is. */
export function madeHandshake(initialize: Message, name: string, instructions: string): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const protocolVersion = revisions.find((one) => one === asked) ?? revisions[0];
  const capabilities = Object.fromEntries(listKinds.map((kind) => [kind, { listChanged: true }]));
  const serverInfo = { name, version: 'unknown' };
  return madeMessage({
    id: 0,
    result: { protocolVersion, capabilities, serverInfo, instructions },
  });
}

/** A list without entries. */
export function emptyList(request: Message, { member }: ListMethod): Message {
  const era =
    modernVersion(request) === undefined
      ? {}
      : { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  return madeMessage({ id: 0, result: { ...era, [member]: [] } });
}

/** The list kept from the last run, for which no time to live is promised. */
export function cachedList(kept: Message): Message {
  return unlasting(kept);
}

/** A list of tools with one more, ahead of the others. */
export function withSignIn(list: Message, subject: ToolSubject): Message {
  const tools = textAt(list, 'result', 'tools') ?? '[]';
  const others: { name?: unknown }[] = JSON.parse(tools);
  if (others.some(({ name }) => name === signInTool.name)) return list;
  const tool = JSON.stringify(signInTool.described(subject));
  const inner = tools.slice(1, -1).trim();
  const all = `[${inner === '' ? tool : `${tool},${inner}`}]`;
  return readMessage(withMember(list.bytes, ['result', 'tools'], all));
}

function unlasting(kept: Message): Message {
  if (textAt(kept, 'result', 'ttlMs') === undefined) return kept;
  return readMessage(withMember(kept.bytes, ['result', 'ttlMs'], '0'));
}
