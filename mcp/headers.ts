import type { Envelope } from './message.ts';
import { membersOf } from './json-value.ts';

/** Headers as `node:http` returns them: lower-case names, a list for a repeated header. */
export type ReceivedHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface HeaderLine {
  /** In lower case. */
  readonly name: string;
  readonly value: string;
}

/**
 * All header lines of a request whose name is one of `names`, which are in lower case, in the order received. `rawHeaders`
 * holds names and values in turn, as in `node:http`. Checks that allow a header only once use this, because Node's
 * `headers` keeps the first of repeated lines or all of them, depending on the name.
 */
export function headerLines(rawHeaders: readonly string[], ...names: string[]): HeaderLine[] {
  const found: HeaderLine[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const sent = rawHeaders[index] ?? '';
    // Compare lengths first, because converting the name costs more.
    const name = names.find((one) => one.length === sent.length && one === sent.toLowerCase());
    if (name !== undefined) found.push({ name, value: rawHeaders[index + 1] ?? '' });
  }
  return found;
}

/** Revisions without a handshake: every request names its version in `_meta`. */
export const modernVersions: readonly string[] = ['2026-07-28'];

/** Revisions with `initialize` and sessions. */
export const legacyVersions: readonly string[] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
  '2024-10-07',
];

/** Methods that exist only in the legacy era. A modern request is refused with "unknown method", whatever else is wrong. */
export const legacyOnlyMethods: ReadonlySet<string> = new Set(['tasks/result']);

/** MCP's two eras: legacy with `initialize` and sessions, modern without. */
export type Era = 'modern' | 'legacy';

/** Methods whose `Mcp-Name` header mirrors a member of `params`. MCP 2026-07-28 transports, tasks */
const mirrored: Readonly<Record<string, 'name' | 'uri' | 'taskId'>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

/** The required member of `params` that `Mcp-Name` repeats. */
export function mirroredMember(method = ''): 'name' | 'uri' | 'taskId' | undefined {
  return Object.hasOwn(mirrored, method) ? mirrored[method] : undefined;
}

/** The value of `Mcp-Name` for this message; `undefined` if it has none. */
export function mirroredName(envelope: Envelope): string | undefined {
  const member = mirroredMember(envelope.method);
  return member && envelope[member];
}

/** Decodes a header value: `=?base64?…?=` encodes what a header cannot carry. */
export function decodeHeader(value: string | undefined): string | undefined {
  const encoded = value === undefined ? undefined : /^=\?base64\?(.*)\?=$/i.exec(value)?.[1];
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8');
}

/** The inverse of `decodeHeader`. */
export function encodeHeader(value: string): string {
  const fits = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value);
  return fits && !value.startsWith('=?')
    ? value
    : `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

const bothForms = 'application/json, text/event-stream';

/** Headers of every POST to an upstream. Of the caller's headers, only those that the functions below copy are forwarded. */
export const postHeaders: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  accept: bothForms,
};

const traceParent = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const stateMember =
  /^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const mostStateMembers = 32;

/**
 * The trace context of the caller, so that operators can correlate logs. Malformed values are dropped, and `tracestate`
 * is dropped as well if `traceparent` is malformed. `baggage` is never forwarded: it is free text, and the
 * upstream is another party.
 *
 * W3C Trace Context §3
 */
export function traceHeaders(callers: ReceivedHeaders): Record<string, string> {
  const { traceparent, tracestate } = callers;
  if (typeof traceparent !== 'string' || !traceParent.test(traceparent)) return {};
  const isState = typeof tracestate === 'string' && isTraceState(tracestate);
  return { traceparent, ...(isState && { tracestate }) };
}

function isTraceState(text: string): boolean {
  const members = text.split(',').map((member) => member.replaceAll(/^[ \t]+|[ \t]+$/g, ''));
  const named = members.filter((member) => member !== '');
  const keys = new Set(named.map((member) => member.split('=', 1)[0]));
  if (keys.size !== named.length || named.length > mostStateMembers) return false;
  return named.length > 0 && named.every((member) => stateMember.test(member));
}

/**
 * The headers that repeat what the body of a modern message says, so that gateways need not read it.
 *
 * MCP 2026-07-28 transports, standard request headers
 */
export function mirroredHeaders({
  version,
  method,
  name,
}: {
  readonly version: string;
  readonly method: string;
  /** The value of the member that `mirroredMember` names. */
  readonly name: string | undefined;
}): Record<string, string> {
  return {
    'mcp-protocol-version': encodeHeader(version),
    'mcp-method': encodeHeader(method),
    ...(name !== undefined && { 'mcp-name': encodeHeader(name) }),
  };
}

/**
 * Headers of a modern request. They are derived from the body rather than from the caller's headers, except
 * `Mcp-Param-*`, which the upstream checks against the body, and the trace context.
 *
 * MCP 2026-07-28 transports, "Request metadata"
 */
export function modernHeaders(
  envelope: Envelope,
  callers: ReceivedHeaders = {},
): Record<string, string> {
  const { protocolVersion: version = modernVersions[0] ?? '', method = '' } = envelope;
  const headers: Record<string, string> = {
    ...postHeaders,
    ...mirroredHeaders({ version, method, name: mirroredName(envelope) }),
    ...traceHeaders(callers),
  };
  for (const header of Object.keys(callers)) {
    const value = callers[header];
    if (header.startsWith('mcp-param-') && typeof value === 'string') headers[header] = value;
  }
  return headers;
}

/** Headers of a legacy request, with its version and the upstream's session id but without the trace context. */
export function legacyHeaders(
  callers: ReceivedHeaders,
  upstreamSessionId?: string,
): Record<string, string> {
  const version = callers['mcp-protocol-version'];
  return {
    ...postHeaders,
    ...(typeof version === 'string' && { 'mcp-protocol-version': version }),
    ...(upstreamSessionId !== undefined && { 'mcp-session-id': upstreamSessionId }),
  };
}

/** A tool argument that a header repeats. */
export interface MirroredParameter {
  readonly path: readonly string[];
  /** In lower case. */
  readonly header: string;
}

/**
 * The headers that repeat arguments of a call; an absent or `null` argument has none. `argumentAt` returns the JSON
 * text of an argument. SEP-2243
 */
export function parameterHeaders(
  parameters: readonly MirroredParameter[],
  argumentAt: (path: readonly string[]) => string | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { path, header } of parameters) {
    const value = plainText(argumentAt(path));
    if (value !== undefined) headers[header] = encodeHeader(value);
  }
  return headers;
}

/** An argument as plain text. Integers that a JavaScript number cannot hold exactly get no header, because servers compare numbers. */
function plainText(json: string | undefined): string | undefined {
  const value: unknown = json === undefined ? undefined : JSON.parse(json);
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'number' || !Number.isFinite(value)) return undefined;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
}

const annotation = 'x-mcp-header';
const headerToken = /^[\w!#$%&'*+.^`|~-]+$/;
const repeatable: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);

/** Keywords whose subschemas apply to values that may be absent, or whose position no path can describe. */
const schemasAside: readonly string[] = [
  'additionalProperties',
  'allOf',
  'anyOf',
  'contains',
  'else',
  'if',
  'items',
  'not',
  'oneOf',
  'prefixItems',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
];
/** The same for keywords whose members have arbitrary names. */
const namedSchemasAside: readonly string[] = [
  '$defs',
  'definitions',
  'dependentSchemas',
  'patternProperties',
];

/**
 * The arguments that the annotations of a tool's input schema repeat in headers; `undefined` if an annotation breaks
 * the rules, in which case the tool must not be offered.
 *
 * MCP 2026-07-28 server tools, `x-mcp-header`
 */
export function mirroredParameters(inputSchema: unknown): MirroredParameter[] | undefined {
  const found = new Map<string, MirroredParameter>();
  return take(inputSchema, [], found) ? [...found.values()] : undefined;
}

/**
 * Collects the annotations of a schema. If `path` is `undefined`, none are allowed. `false` if one breaks the rules.
 */
function take(
  schema: unknown,
  path: readonly string[] | undefined,
  found: Map<string, MirroredParameter>,
): boolean {
  const members = membersOf(schema);
  if (Object.hasOwn(members, annotation)) {
    const name = members[annotation];
    if (!path?.length || typeof name !== 'string' || !headerToken.test(name)) return false;
    const header = `mcp-param-${name.toLowerCase()}`;
    if (found.has(header) || !repeatable.has(members['type'])) return false;
    found.set(header, { path, header });
  }
  const properties = Object.entries(membersOf(members['properties']));
  const aside = [
    ...schemasAside.flatMap((keyword) => members[keyword] ?? []),
    ...namedSchemasAside.flatMap((keyword) => Object.values(membersOf(members[keyword]))),
  ];
  return (
    properties.every(([name, property]) => take(property, path && [...path, name], found)) &&
    aside.every((each) => take(each, undefined, found))
  );
}
