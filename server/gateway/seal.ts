import { timingSafeEqual } from 'node:crypto';

import type { Span } from 'latchkey-mcp/json';
import { changedObject, memberEdits, membersIn, replaced, stringAt } from 'latchkey-mcp/json-edit';
import { type Envelope, type Message, scanMessage } from 'latchkey-mcp/message';
import { type Filter, ownedMarks } from './filters.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { Metering } from './metering.ts';

/**
 * The kinds of value that are bound to one caller: ids of tasks and states of requests that an upstream gives the caller
 * to hand back, and would accept from anyone, and ids of tasks that the caller itself keeps for the upstream.
 */
export type SealedKind = 'task' | 'state' | 'ownTask';

/** Computes a code of 43 letters that only this server can compute, always the same for the same text. */
export type Mac = (text: string) => string;

const macLetters = 22;

/**
 * Binds a value from an upstream to its owner, a principal at a server. The sealed value consists of 132 bits of a code
 * over kind, owner and value, a dot, and the upstream's value. Upstreams see one gateway and cannot tell its callers apart, so
 * they would accept the value from any of them. The same value is always sealed the same way, because clients compare
 * task ids.
 *
 * MCP 2025-11-25 tasks, "Task Isolation and Access Control"; MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function principalSeal(owner: string, mac: Mac) {
  const codeOf = (kind: SealedKind, value: string) =>
    mac(JSON.stringify([kind, owner, value])).slice(0, macLetters);
  return {
    seal: (kind: SealedKind, value: string): string => `${codeOf(kind, value)}.${value}`,

    /** Returns `undefined` for a value that was not sealed for this owner. */
    open(kind: SealedKind, given: string): string | undefined {
      const value = given.slice(macLetters + 1);
      const right = Buffer.from(`${codeOf(kind, value)}.`);
      const said = Buffer.from(given.slice(0, macLetters + 1));
      return said.length === right.length && timingSafeEqual(said, right) ? value : undefined;
    },
  };
}

export type PrincipalSeal = ReturnType<typeof principalSeal>;

const callIdLetters = 24;

/** The contents of a sealed request state: the call that the request belongs to, and the upstream's state. */
export interface CallState {
  /** 24 letters, the same for all rounds of the call. */
  readonly callId: string;
  /** `undefined` if the upstream gave none. */
  readonly value: string | undefined;
}

/** Seals the id of a call, a dot and the upstream's state, or the id alone. Callers hand it back with the next round. */
export function sealState(seal: PrincipalSeal, { callId, value }: CallState): string {
  return seal.seal('state', value === undefined ? callId : `${callId}.${value}`);
}

/** Returns `undefined` for a state that was not sealed for this owner. */
export function openState(seal: PrincipalSeal, given: string): CallState | undefined {
  const opened = seal.open('state', given);
  if (opened === undefined) return undefined;
  const hasValue = opened.length > callIdLetters;
  return {
    callId: opened.slice(0, callIdLetters),
    value: hasValue ? opened.slice(callIdLetters + 1) : undefined,
  };
}

/** A value of a message that belongs to one principal. */
export interface OwnedValue {
  readonly kind: 'task' | 'state';
  readonly span: Span;
  /** `undefined` if it is not a string, as it has to be. */
  readonly value: string | undefined;
  /** Who may keep the task: the upstream, for the caller; the caller, for the upstream; or either. */
  readonly keeper: 'upstream' | 'caller' | 'either';
  /** Whether it is the task whose state a response reports, or that a response reports as begun. */
  readonly isOfAnswer?: boolean;
}

/** The member of `_meta` that names a task. */
export const relatedTask = 'io.modelcontextprotocol/related-task';

/**
 * Finds the values in a message that are bound to one caller: ids of tasks, and the state of a request that will
 * continue. `from` says who sent the message.
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
    // Requests are about tasks that the upstream keeps. Other messages may also be about a task that the caller keeps.
    note('task', carried.get('taskId'), kind === 'request' ? 'upstream' : 'either');
    if (kind === 'response') note('task', nested, 'caller');
    else note('state', carried.get('requestState'));
  } else if (kind === 'response') {
    for (const span of [carried.get('taskId'), nested]) {
      const value = span && stringAt(body, span);
      if (span) found.push({ kind: 'task', span, value, keeper: 'upstream', isOfAnswer: true });
    }
    note('state', carried.get('requestState'));
  } else if (kind === 'request') {
    if (method.startsWith('tasks/')) note('task', carried.get('taskId'), 'caller');
  } else if (method.startsWith('notifications/tasks')) {
    note('task', carried.get('taskId'));
  }
  const noteRelated = (members: ReadonlyMap<string, Span>, keeper: OwnedValue['keeper']) => {
    const related = inside(members.get('_meta')).get(relatedTask);
    note('task', inside(related).get('taskId') ?? related, keeper);
  };
  noteRelated(carried, from === 'caller' && kind === 'request' ? 'upstream' : 'either');
  // Questions that were put into a result, and the responses to them, are messages of their own.
  for (const asked of inside(carried.get('inputRequests')).values())
    noteRelated(inside(inside(asked).get('params')), 'either');
  for (const given of inside(carried.get('inputResponses')).values())
    noteRelated(inside(given), 'either');
  return found;
}

/** A message, and the id of the call that it continues according to its state. */
interface Unsealed extends Message {
  readonly continues?: string;
}

/**
 * Replaces sealed values in a caller's message with the upstream's own, and removes a state that only holds the id of the
 * call, because the upstream gave none. A value that was not sealed, or was sealed for
 * another caller, is refused like a task that does not exist. The id of a task that the caller itself keeps is sealed
 * on its way, so that it can never equal the id of an upstream's task.
 *
 * @throws {GatewayRefusal} `not_theirs`, `bad_params`
 */
export function unsealMessage({ body, envelope }: Message, seal: PrincipalSeal): Unsealed {
  const { taskId, requestState, meta, kind } = envelope;
  const isRelated = meta !== undefined && mayBeRelated(body);
  const mayHold = taskId !== undefined || requestState || isRelated || kind === 'response';
  if (!mayHold) return { body, envelope };
  if (requestState && body[requestState.start] !== 0x22) throw notTheirs('state');
  let state: CallState | undefined;
  const edits = ownedValues(body, envelope, 'caller').map((owned) => {
    const { span } = owned;
    if (owned.kind === 'task') return { span, text: JSON.stringify(unsealedTask(owned, seal)) };
    state = openState(seal, textOf(owned));
    if (!state) throw notTheirs('state');
    return { span, text: JSON.stringify(state.value ?? '') };
  });
  if (edits.length === 0) return { body, envelope };
  const changed = scanned(replaced(body, edits));
  if (!state) return changed;
  const { callId: continues, value } = state;
  return { ...(value === undefined ? withoutState(changed) : changed), continues };
}

const backslash = 0x5c;

/** Whether a member may name a related task. Only an escape could hide the name from a search. */
function mayBeRelated(body: Buffer): boolean {
  return body.includes(relatedTask) || body.includes(backslash);
}

function withoutState({ body, envelope }: Message): Message {
  const { params } = envelope;
  if (!params) return { body, envelope };
  const text = changedObject(body, params, { requestState: undefined });
  return scanned(replaced(body, [{ span: params, text }]));
}

/** @throws {GatewayRefusal} `not_a_message` */
function scanned(body: Buffer): Message {
  const scan = scanMessage(body);
  if (scan.outcome === 'refused') throw new GatewayRefusal('not_a_message');
  return { body, envelope: scan.envelope };
}

/** @throws {GatewayRefusal} `bad_params` */
function textOf({ kind, value }: OwnedValue): string {
  if (value !== undefined) return value;
  throw new GatewayRefusal('bad_params', { detail: `a ${nameOf(kind)} must be a string` });
}

function unsealedTask(owned: OwnedValue, seal: PrincipalSeal): string {
  const { kind, keeper } = owned;
  const value = textOf(owned);
  const opened = keeper === 'caller' ? undefined : seal.open(kind, value);
  if (opened !== undefined) return opened;
  if (keeper === 'upstream') throw notTheirs(kind);
  return seal.seal('ownTask', value);
}

function notTheirs(kind: OwnedValue['kind']): GatewayRefusal {
  return new GatewayRefusal('not_theirs', { detail: nameOf(kind) });
}

function nameOf(kind: OwnedValue['kind']): string {
  return kind === 'task' ? 'task' : 'requestState';
}

/** The part of the metering that sealing a call's answer sets. */
export type SealedCall = Pick<Metering, 'callId' | 'isOfTask'>;

/**
 * Seals the task ids and request states in an answer's messages, and opens the ids of tasks that the caller keeps. An
 * answer that requires input gets a state if it has none, so that the next round is known to continue the call. All
 * other bytes stay the same. A message that cannot be read is passed on unchanged: its ids are not sealed, so no one
 * can use them.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function sealed(seal: PrincipalSeal, call: SealedCall): Filter {
  return (message) => {
    const { bytes } = message;
    if (message.lacks(ownedMarks)) return message;
    const { scan } = message;
    if (scan.outcome === 'refused') return message;
    const { envelope } = scan;
    const owned = ownedValues(bytes, envelope, 'upstream');
    const edits = owned.flatMap((one) => {
      const text = sealedValue(one, seal, call);
      if (text === undefined) return [];
      if (one.isOfAnswer) call.isOfTask(text, statusIn(bytes, envelope));
      return [{ span: one.span, text: JSON.stringify(text) }];
    });
    if (!owned.some(({ kind }) => kind === 'state')) {
      edits.push(...addedState(bytes, envelope, seal, call));
    }
    return edits.length > 0 ? message.changed(replaced(bytes, edits)) : message;
  };
}

/** Restores the caller's own id of a task that the caller keeps. Seals any other value. */
export function sealedValue(
  { kind, value, keeper }: Omit<OwnedValue, 'span'>,
  seal: PrincipalSeal,
  call: SealedCall,
): string | undefined {
  if (value === undefined) return undefined;
  if (kind === 'state') return sealState(seal, { callId: call.callId, value });
  const own = keeper === 'upstream' ? undefined : seal.open('ownTask', value);
  return own ?? (keeper === 'caller' ? value : seal.seal(kind, value));
}

function statusIn(body: Buffer, { root }: Envelope): string | undefined {
  const result = membersIn(body, root).get('result');
  return result && stringAt(body, membersIn(body, result).get('status'));
}

function addedState(body: Buffer, { kind, root }: Envelope, seal: PrincipalSeal, call: SealedCall) {
  const result = kind === 'response' ? membersIn(body, root).get('result') : undefined;
  const members = result && membersIn(body, result);
  if (!members || stringAt(body, members.get('resultType')) !== 'input_required') return [];
  const state = sealState(seal, { callId: call.callId, value: undefined });
  return members.has('requestState')
    ? []
    : memberEdits(body, result, { requestState: JSON.stringify(state) });
}
