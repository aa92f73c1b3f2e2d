import { z } from 'zod';

import { Steps } from '#model/resource-uri';
import { allows, type PrimitiveKind, type ToolRights, type Verdict } from '#model/tool-rights';
import { allScopes, methodScope, type Scope, subscriptionScope } from '#model/scopes';
import { mirroredMember } from 'latchkey-mcp/headers';
import type { Span } from 'latchkey-mcp/json';
import { elementsIn, membersIn, stringAt } from 'latchkey-mcp/json-edit';
import type { Envelope } from 'latchkey-mcp/message';
import type { Admission } from './admission.ts';
import { GatewayRefusal, type RefusalCode } from './gateway-refusal.ts';
import { isListMethod } from './tool-list.ts';

/** A tool, prompt, resource or template that a message wants to use. */
export interface Subject {
  readonly kind: PrimitiveKind;
  /** The name of a tool or prompt, the URI of a resource, the text of a template. */
  readonly name: string;
}

const none: readonly Subject[] = [];

/**
 * Refuses a message that the caller's scopes and rights do not cover, or that an upstream could read as a different request from
 * the one that was checked. Only the body counts, not the headers. Returns the subjects that it cannot decide before a list is read.
 *
 * @throws {GatewayRefusal} `unknown_method`, `insufficient_scope`, `bad_params`, `not_a_message`, and what `checkSubject` throws
 */
export function authorize(
  envelope: Envelope,
  body: Buffer,
  { scopes, rights }: Admission,
): readonly Subject[] {
  const { method = '', params } = envelope;
  // A method under `notifications/` is known, and needs no scope, but only in a notification.
  const isMisused = envelope.kind === 'request' && method.startsWith('notifications/');
  const needed = isMisused ? undefined : methodScope(method);
  if (needed === undefined) throw new GatewayRefusal('unknown_method', { detail: method });
  require(needed === 'any' ? [] : [needed], scopes);
  checkId(envelope);
  checkParams(envelope, body);
  if (method === 'subscriptions/listen') require(listenedScopes(body, params), scopes);
  const subjects = subjectsOf(envelope, body, rights);
  if (subjects.length === 0) return none;
  const undecided = subjects.filter(({ kind }) => rights.isUnread(kind));
  const steps = Steps.ofList();
  for (const subject of subjects)
    if (!undecided.includes(subject)) checkSubject(subject, rights, steps);
  return undecided;
}

/**
 * Refuses a subject that the caller may not use. Whatever the reason, the answer is that the subject does not exist.
 *
 * @throws {GatewayRefusal} `hidden_tool`, `withheld_tool`, `unknown_tool`, `closed_tool`, `unknown_prompt`, `closed_prompt`,
 *   `unknown_resource`, `closed_resource`
 */
export function checkSubject({ kind, name }: Subject, rights: ToolRights, steps?: Steps): void {
  const verdict = rights.verdict(kind, name, steps);
  if (!allows(verdict)) throw closedSubject({ kind, name }, verdict);
}

/** The refusal of a subject that is on no list. */
export function unknownSubject(subject: Subject): GatewayRefusal {
  return closedSubject(subject, 'unknown');
}

function closedSubject({ kind, name }: Subject, verdict: Verdict): GatewayRefusal {
  return new GatewayRefusal(closedCode(kind, verdict), { detail: name });
}

function closedCode(kind: PrimitiveKind, verdict: Verdict): RefusalCode {
  const isUnknown = verdict === 'unknown';
  switch (kind) {
    case 'tool':
      if (verdict === 'hidden') return 'hidden_tool';
      if (verdict === 'withheld') return 'withheld_tool';
      return isUnknown ? 'unknown_tool' : 'closed_tool';
    case 'prompt':
      return isUnknown ? 'unknown_prompt' : 'closed_prompt';
    case 'resource':
    case 'template':
      return isUnknown ? 'unknown_resource' : 'closed_resource';
  }
}

function require(needed: readonly Scope[], granted: readonly Scope[]): void {
  if (needed.every((scope) => granted.includes(scope))) return;
  const union = allScopes.filter((scope) => granted.includes(scope) || needed.includes(scope));
  throw new GatewayRefusal('insufficient_scope', { scopes: union, detail: needed.join(' ') });
}

/** A request without an id gets no response, but an upstream may still execute it. MCP basic, "Notifications" */
function checkId({ kind, method = '' }: Envelope): void {
  if (kind !== 'notification' || method.startsWith('notifications/')) return;
  throw new GatewayRefusal('not_a_message', {
    detail: `${method} is a request and requires an id`,
  });
}

/**
 * Members that decisions depend on must have the expected type: an upstream that looks up a tool by `["drop"]` could
 * find the one called `drop`.
 */
function checkParams(envelope: Envelope, body: Buffer): void {
  const { method, params, notAString } = envelope;
  if (params && body[params.start] !== 0x7b) throw badParams('params must be an object');
  if (notAString) throw badParams(`params.${notAString} must be a string`);
  const needed = mirroredMember(method);
  if (needed && envelope[needed] === undefined) throw missing(needed);
}

function badParams(detail: string): GatewayRefusal {
  return new GatewayRefusal('bad_params', { detail });
}

function missing(member: string): GatewayRefusal {
  return badParams(`params.${member} is missing`);
}

const filterSchema = z.record(z.string(), z.unknown());

/** The scopes for the kinds of notification that a `subscriptions/listen` asks for. MCP 2026-07-28 */
function listenedScopes(body: Buffer, params: Span | undefined): Scope[] {
  const span = params && exactMembers(body, params, ['notifications']).get('notifications');
  const filter = filterSchema.safeParse(span ? jsonAt(body, span) : {});
  if (!filter.success) {
    throw badParams('params.notifications must be an object');
  }
  return Object.keys(filter.data).map((kind) => {
    const scope = subscriptionScope(kind);
    if (scope) return scope;
    throw badParams(`notifications.${kind.slice(0, 40)} is unknown`);
  });
}

function jsonAt(body: Buffer, { start, end }: Span): unknown {
  return JSON.parse(body.toString('utf8', start, end));
}

/**
 * The members of an object. Refuses a name that a case-insensitive parser could take for one of the `known` names. The scan of the
 * message has already refused duplicate names.
 */
function exactMembers(
  body: Buffer,
  span: Span,
  known: readonly string[],
): ReadonlyMap<string, Span> {
  const members = membersIn(body, span);
  for (const name of members.keys()) {
    // For example U+017F, which some parsers read as `s`.
    const read = name.toUpperCase().toLowerCase();
    const other = known.find((one) => one !== name && one.toLowerCase() === read);
    if (other) throw badParams(`a member differs from ${other} in case only`);
  }
  return members;
}

/**
 * The subjects of a message. Completions and subscriptions are read only if the caller's rights restrict their kinds of subject.
 *
 * @throws {GatewayRefusal} `bad_params`
 */
function subjectsOf(envelope: Envelope, body: Buffer, rights: ToolRights): readonly Subject[] {
  const { method = '', name, uri, params } = envelope;
  switch (method) {
    case 'tools/call':
      return name === undefined ? none : [{ kind: 'tool', name }];
    case 'completion/complete':
      return rights.restricts('prompt') || rights.restricts('template')
        ? completedSubjects(body, params)
        : none;
    case 'subscriptions/listen':
      return rights.restricts('resource') ? listenedSubjects(body, params) : none;
  }
  if (isListMethod(method)) return none;
  // Every method about a resource or skill, whatever it does.
  if (method.startsWith('resources/') || method.startsWith('skills/')) {
    if (uri !== undefined) return [{ kind: 'resource', name: uri }];
    if (rights.restricts('resource')) throw missing('uri');
  }
  if (method.startsWith('prompts/')) {
    if (name !== undefined) return [{ kind: 'prompt', name }];
    if (rights.restricts('prompt')) throw missing('name');
  }
  return none;
}

/** MCP 2025-11-25 and 2026-07-28 server/utilities/completion */
function completedSubjects(body: Buffer, params: Span | undefined): readonly Subject[] {
  const ref = params && exactMembers(body, params, ['ref']).get('ref');
  if (!ref || body[ref.start] !== 0x7b) throw badParams('params.ref must be an object');
  const members = exactMembers(body, ref, ['type', 'name', 'uri']);
  const type = stringAt(body, members.get('type'));
  const [kind, needed, other] =
    type === 'ref/prompt'
      ? (['prompt', 'name', 'uri'] as const)
      : (['template', 'uri', 'name'] as const);
  if (type !== 'ref/prompt' && type !== 'ref/resource')
    throw badParams('params.ref.type is unknown');
  const name = stringAt(body, members.get(needed));
  if (name === undefined) throw badParams(`params.ref.${needed} must be a string`);
  // An upstream may look at this member instead of the type.
  if (members.has(other)) throw badParams(`params.ref.${other} does not belong to ${type}`);
  return [{ kind, name }];
}

/** MCP 2026-07-28 basic/patterns/subscriptions */
function listenedSubjects(body: Buffer, params: Span | undefined): readonly Subject[] {
  const filter = params && membersIn(body, params).get('notifications');
  const span = filter && membersIn(body, filter).get('resourceSubscriptions');
  if (!span) return none;
  const uris = elementsIn(body, span)?.map((element) => stringAt(body, element));
  return (uris ?? [undefined]).map((name) => {
    if (name === undefined)
      throw badParams('notifications.resourceSubscriptions must be an array of strings');
    return { kind: 'resource', name };
  });
}
