import { randomUUID } from 'node:crypto';
import { jsonMembers, type Span } from '#jsonrpc/json-members';
import { stringAt, type Message } from '#jsonrpc/message';
import { withMembers } from '#jsonrpc/with-members';

/** What a server needs from the assistant before it goes on. */
export type NeededInput = {
  /** By the server's own key; `params` is JSON text. */
  requests: { key: string; method: string; params: string }[];
  /** JSON text, to be given back as it is. */
  requestState: string | undefined;
};

/**
 * What an answer of a modern server asks for; `undefined` for one that is complete.
 *
 * MCP 2026-07-28 multi round-trip requests
 */
export function neededInput(answer: Message): NeededInput | undefined {
  if (stringAt(answer, 'result', 'resultType') !== 'input_required') return undefined;
  const { bytes } = answer;
  const at = (span: Span | undefined) => span && jsonMembers(bytes, span);
  const text = (span: Span | undefined) => span && bytes.toString('utf8', span.start, span.end);
  const result = at(answer.members.get('result'));
  const requests = [...(at(result?.get('inputRequests')) ?? [])].map(([key, span]) => {
    const request = at(span);
    const method = stringAt(answer, 'result', 'inputRequests', key, 'method') ?? '';
    return { key, method, params: legacyParams(text(request?.get('params'))) };
  });
  return { requests, requestState: text(result?.get('requestState')) };
}

/** Before 2026-07-28 a page that a person is sent to has an id. MCP 2025-11-25 elicitation */
function legacyParams(json: string | undefined): string {
  if (!json?.includes('"url"')) return json ?? '{}';
  const params: { mode?: unknown; elicitationId?: unknown } = JSON.parse(json);
  if (params.mode !== 'url' || params.elicitationId !== undefined) return json;
  const bytes = Buffer.from(json);
  const span = { start: 0, end: bytes.length };
  return withMembers(bytes, span, { elicitationId: JSON.stringify(randomUUID()) }).toString();
}
