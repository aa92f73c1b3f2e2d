import type { Envelope } from './envelope.ts';
import { jsonMembers } from '#jsonrpc/json-members';
import { readMessage, type Message } from '#jsonrpc/message';
import { withMembers, type MemberChanges } from '#jsonrpc/with-members';

export type ModernRequestChanges = {
  /** Another id, as JSON text. */
  id?: string;
  /** More members of `params`, as JSON texts. */
  params?: MemberChanges;
};

/**
 * A request or notification of the older era as one of the modern era: with the envelope in its
 * `_meta`. Everything else stays byte for byte.
 */
export function modernRequest(
  { bytes, members }: Message,
  envelope: Envelope,
  { id, params: more = {} }: ModernRequestChanges = {},
): Message {
  const params = members.get('params');
  const meta = params && jsonMembers(bytes, params)?.get('_meta');
  const changedParams = withMembers(bytes, params, {
    ...more,
    _meta: withMembers(bytes, meta, envelope),
  });
  const whole = { start: 0, end: bytes.length };
  const changes = { params: changedParams, ...(id !== undefined && { id }) };
  return readMessage(withMembers(bytes, whole, changes));
}
