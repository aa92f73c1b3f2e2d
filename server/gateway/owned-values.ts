import { membersIn, stringAt } from './json-parts.ts';
import type { Envelope } from './json-scan.ts';
import type { SealedKind } from './principal-seal.ts';
import type { Span } from './strict-json.ts';

/** A string of a message that belongs to one principal. */
export interface OwnedValue {
  readonly kind: SealedKind;
  readonly span: Span;
  readonly value: string;
  /** It only says what the message is about, and may name a task of either side. */
  readonly isMention: boolean;
}

const relatedTask = 'io.modelcontextprotocol/related-task';

/**
 * Where a message holds what an upstream bound to one caller: the ids of its tasks and the state of a
 * request that goes on. A task that the caller keeps for the upstream is the caller's own and not
 * among them, but where it is mentioned. `from` says who sent the message.
 *
 * MCP 2025-11-25 tasks; MCP 2026-07-28 "Multi Round-Trip Requests" and the tasks extension
 */
export function ownedValues(
  body: Buffer,
  { kind, method = '', root }: Envelope,
  from: 'caller' | 'upstream',
): OwnedValue[] {
  const found: OwnedValue[] = [];
  const note = (owned: SealedKind, span: Span | undefined, isMention = false) => {
    const value = stringAt(body, span);
    if (span && value !== undefined) found.push({ kind: owned, span, value, isMention });
  };
  const inside = (span: Span | undefined) =>
    span ? membersIn(body, span) : new Map<string, Span>();

  const carried = inside(inside(root).get(kind === 'response' ? 'result' : 'params'));
  const isTheirTask =
    from === 'caller'
      ? kind === 'request' && method.startsWith('tasks/')
      : kind === 'response' || method.startsWith('notifications/tasks');
  if (isTheirTask) note('task', carried.get('taskId'));
  if (from === 'upstream' && kind === 'response') {
    note('task', inside(carried.get('task')).get('taskId'));
  }
  if (kind === (from === 'caller' ? 'request' : 'response')) {
    note('state', carried.get('requestState'));
  }
  note('task', inside(inside(carried.get('_meta')).get(relatedTask)).get('taskId'), true);
  return found;
}
