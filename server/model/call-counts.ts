import type { EpochSeconds } from './clock.ts';

// The subjects that calls are counted for, and the counts.

/** The kinds of subjects that calls are counted for. A subject of `caller` is a caller with a tool. */
export const callKinds = [
  'server',
  'client',
  'key',
  'person',
  'application',
  'tool',
  'caller',
  'method',
] as const;
export type CallKind = (typeof callKinds)[number];

/** Who calls: a person, or a client or key that acts for itself. */
export interface Caller {
  readonly type: 'person' | 'client' | 'key';
  readonly id: string;
}

const callerTypes = ['person', 'client', 'key'] as const;

/** Between the two parts of a subject of the kind `caller`, neither of which contains it. */
const between = '\n';

/** The text that all subjects of one caller begin with. */
export function callerPart({ type, id }: Caller): string {
  return `${type}:${id}${between}`;
}

/** The text that all subjects of one tool end with. */
export function toolPart(tool: string): string {
  return between + tool.replaceAll(between, ' ');
}

/** The subject under which the calls of a tool by one caller are counted. */
export function callerSubject(caller: Caller, tool: string): string {
  return callerPart(caller) + toolPart(tool).slice(between.length);
}

/** The caller and the tool of a subject of the kind `caller`; `undefined` for other texts. */
export function readCallerSubject(
  subject: string,
): { readonly caller: Caller; readonly tool: string } | undefined {
  const [, typed, id, tool] = /^([a-z]+):(.+)\n(.*)$/.exec(subject) ?? [];
  const type = callerTypes.find((known) => known === typed);
  return type && id !== undefined && tool !== undefined
    ? { caller: { type, id }, tool }
    : undefined;
}

/** Numbers of calls and of failures. */
export interface CallCounts {
  readonly calls: number;
  /** The MCP server or the gateway answered with a tool or protocol error. */
  readonly toolErrors: number;
  /** Denied by the gateway: missing scope, hidden tool, rate limit, account that is not connected. */
  readonly refused: number;
  /** The MCP server did not answer. */
  readonly upstreamErrors: number;
}

/** Calls of one minute and one latency range, counted for one subject. */
export interface CallTally extends CallCounts {
  /** When the minute begins. */
  readonly at: EpochSeconds;
  readonly serverId: string;
  readonly targetId: string;
  readonly kind: CallKind;
  /** The id of a server, key, client or person; the name of a tool, method or application; for `caller` see `callerSubject`. */
  readonly subject: string;
  /** A range of latencies, as numbered in `usage/latencies.ts`, or `untimed`. */
  readonly bucket: number;
}

/** The bucket of calls whose latencies are not counted, because their subjects are many. */
export const untimed = -100;

/** A subject that calls are counted for, within its server. */
export interface CallSubject {
  readonly serverId: string;
  readonly subject: string;
}

/** The name of a tool, method or application that calls are counted for, within a target. */
export interface TargetSubject {
  readonly targetId: string;
  readonly subject: string;
}
