import { membersIn, stringAt } from './json-parts.ts';
import type { Envelope } from './json-scan.ts';
import type { Span } from './strict-json.ts';

/** A value of a message that belongs to one principal. */
export interface OwnedValue {
  readonly kind: 'task' | 'state';
  readonly span: Span;
  /** `undefined` for what is not the string that it has to be. */
  readonly value: string | undefined;
  /** Whose task it may be: of what the upstream does for the caller, of what the caller does for it, or of either. */
  readonly keeper: 'upstream' | 'caller' | 'either';
}

const relatedTask = 'io.modelcontextprotocol/related-task';

/**
 * Where a message holds what is bound to one caller: the ids of tasks and the state of a request that goes on.
 * `from` says who sent the message.
 *
 * MCP 2025-11-25 tasks; MCP 2026-07-28 "Multi Round-Trip Requests" and the tasks extension
 */
export function ownedValues(
  body: Buffer,
  { kind, method = '', root }: Envelope,
  from: 'caller' | 'upstream',
): OwnedValue[] {
  const found: OwnedValue[] = [];
  const note = (
    owned: OwnedValue['kind'],
    span: Span | undefined,
    keeper: OwnedValue['keeper'] = 'upstream',
  ) => {
    if (span) found.push({ kind: owned, span, value: stringAt(body, span), keeper });
  };
  const inside = (span: Span | undefined) =>
    span ? membersIn(body, span) : new Map<string, Span>();

  const carried = inside(inside(root).get(kind === 'response' ? 'result' : 'params'));
  const nested = inside(carried.get('task')).get('taskId');
  if (from === 'caller') {
    // A task of the upstream's is asked about. What is only told may be of one that the caller keeps.
    note('task', carried.get('taskId'), kind === 'request' ? 'upstream' : 'either');
    if (kind === 'response') note('task', nested, 'caller');
    else note('state', carried.get('requestState'));
  } else if (kind === 'response') {
    note('task', carried.get('taskId'));
    note('task', nested);
    note('state', carried.get('requestState'));
  } else if (kind === 'request') {
    if (method.startsWith('tasks/')) note('task', carried.get('taskId'), 'caller');
  } else if (method.startsWith('notifications/tasks')) {
    note('task', carried.get('taskId'));
  }
  const related = inside(carried.get('_meta')).get(relatedTask);
  const mentioned = inside(related).get('taskId');
  const isAsked = from === 'caller' && kind === 'request';
  note('task', mentioned ?? related, isAsked ? 'upstream' : 'either');
  return found;
}
