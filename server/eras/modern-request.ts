import { modernHeaders, traceHeaders } from '#gateway/forwarded-headers';
import type { UpstreamRequest } from '#gateway/upstream';
import { metaOf, type ClientWords } from './envelope.ts';
import { messageOf, spanAt, type Message } from './message.ts';
import { withMembers, type MemberChanges } from './with-members.ts';

export interface ModernRequestChanges {
  /** Another id, as JSON text. */
  readonly id?: string;
  /** More members of `params`. */
  readonly params?: MemberChanges;
}

/**
 * A request of the older era as one of the modern era: who asks goes along in `_meta`. Everything else
 * keeps its bytes.
 */
export function modernRequest(
  message: Message,
  client: ClientWords,
  { id, params = {} }: ModernRequestChanges = {},
): Message {
  const { body, envelope } = message;
  const meta = withMembers(body, spanAt(message, 'params', '_meta'), metaOf(client));
  const changed = withMembers(body, envelope.params, { ...params, _meta: meta });
  const changes = { params: changed, ...(id !== undefined && { id }) };
  return messageOf(withMembers(body, envelope.root, changes));
}

/** The POST that carries a message of the modern era; `callers` are the headers of the request that it is made for. */
export function modernPost(
  { body, envelope }: Message,
  signal: AbortSignal,
  callers: UpstreamRequest['headers'] = {},
): UpstreamRequest {
  const headers = { ...modernHeaders(envelope), ...traceHeaders(callers) };
  return { method: 'POST', headers, body, signal };
}
