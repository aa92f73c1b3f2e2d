/*
 * Answers where administrators wrote rules about resources. No list decides which resources exist, so the upstream answers calls
 * about the open ones. Its errors must not tell a caller which resources are closed.
 */
import { allows, type ToolRights } from '#model/tool-rights';
import { membersIn, replaced } from 'latchkey-mcp/json-edit';
import { isError } from 'latchkey-mcp/message';
import type { SseEvent } from 'latchkey-mcp/sse';
import { eventsIn } from './answers.ts';
import { unknownSubject } from './authorization.ts';
import type { MessageCall } from './call.ts';
import type { Filter } from './filters.ts';
import { isListMethod, privateEdits } from './tool-list.ts';
import { isEventStream, type UpstreamAnswer } from './upstream.ts';

/** The URI of the resource that a call is about, if there are rules about resources. */
export function restrictedUri({
  envelope,
  admission,
}: Pick<MessageCall, 'envelope' | 'admission'>): string | undefined {
  const { method = '', uri } = envelope;
  const isAbout = method.startsWith('resources/') || method.startsWith('skills/');
  return isAbout && !isListMethod(method) && admission.rights.hasRules('resource')
    ? uri
    : undefined;
}

/** If the upstream answers with an error, refuses the call in the same way as a call about a closed resource. */
export function sameRefusal(uri: string): Filter {
  return (message) => {
    if (message.isError) throw unknownSubject({ kind: 'resource', name: uri });
    return message;
  };
}

/**
 * Returns the same answer, unless it is a stream that begins with an error. Such a stream is refused before the caller's answer
 * begins, because the answer to a call about a closed resource is not a stream.
 *
 * @throws {GatewayRefusal} `unknown_resource`
 */
export async function unlessError(answer: UpstreamAnswer, uri: string): Promise<UpstreamAnswer> {
  if (!isEventStream(answer)) return answer;
  const { body } = answer;
  const events = eventsIn(body);
  const first: SseEvent[] = [];
  for (let next = await events.next(); !next.done; next = await events.next()) {
    const { data, raw } = next.value;
    // Later chunks overwrite these bytes.
    first.push({ ...next.value, raw: Buffer.from(raw) });
    if (data.length === 0) continue;
    if (!isError(data)) break;
    await events.return(undefined);
    throw unknownSubject({ kind: 'resource', name: uri });
  }
  const letGo = body instanceof Uint8Array ? undefined : body.letGo;
  const rest = async function* () {
    for (const { raw } of first.splice(0)) yield raw;
    for await (const { raw } of events) yield raw;
  };
  return { ...answer, body: { [Symbol.asyncIterator]: rest, ...(letGo && { letGo }) } };
}

/** Marks a result as private, because not everyone may read it. MCP 2026-07-28 server/utilities/caching */
export const privateResult: Filter = (message) => {
  const { bytes, scan } = message;
  const result = scan.outcome === 'message' ? scan.envelope.result : undefined;
  if (!result) return message;
  const edits = privateEdits(bytes, { result, members: membersIn(bytes, result) });
  return edits.length > 0 ? message.changed(replaced(bytes, edits)) : message;
};

const updated = 'notifications/resources/updated';

/** In event streams, drops messages that would reveal the change of a resource that the caller may not read now. */
export function openUpdates(rights: () => ToolRights): Filter {
  return (message) => {
    if (!message.event) return message;
    const now = rights();
    if (!now.restricts('resource')) return message;
    // Only an escape could hide these words from a search of the bytes.
    if (!message.bytes.includes('notifications/') && !message.bytes.includes('\\')) return message;
    const { scan } = message;
    if (scan.outcome === 'refused') return undefined;
    const { method, uri } = scan.envelope;
    if (method !== updated) return message;
    return uri !== undefined && allows(now.verdict('resource', uri)) ? message : undefined;
  };
}
