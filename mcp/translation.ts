import { legacyVersions, modernVersions } from './headers.ts';
import {
  type MemberChanges,
  JsonWriter,
  changedObject,
  elementsIn,
  memberNames,
  membersIn,
  stringAt as stringIn,
  valuesOf,
  withMembers,
} from './json-edit.ts';
import { type Span, jsonMembers } from './json.ts';
import { type JsonObject, isObject, membersOf } from './json-value.ts';
import {
  type Message,
  messageOf,
  objectAt,
  resultTo,
  spanAt,
  stringAt,
  textAt,
  valueAt,
} from './message.ts';

/** The prefix of names in `_meta` that MCP reserves. */
export const metaPrefix = 'io.modelcontextprotocol/';

/** The member of `_meta` that holds the id of a notification's subscription. */
export const subscriptionId = `${metaPrefix}subscriptionId`;

/** The member of `_meta` that describes the server that answered. */
export const serverInfoName = `${metaPrefix}serverInfo`;

/** The modern revision that we speak to upstreams. */
export const modernVersion = modernVersions[0] ?? '';

/**
 * A client's info and capabilities as JSON text: sent once in the legacy era, and with every request in the modern
 * one.
 */
export interface ClientDescription {
  readonly capabilities: string;
  readonly clientInfo: string | undefined;
  /** For example `debug` or `info`. */
  readonly logLevel: string | undefined;
}

/** The `_meta` of a modern request for this client. MCP 2026-07-28 basic */
export function metaOf({
  capabilities,
  clientInfo,
  logLevel,
}: ClientDescription): Record<string, string> {
  return {
    [`${metaPrefix}protocolVersion`]: JSON.stringify(modernVersion),
    [`${metaPrefix}clientCapabilities`]: capabilities,
    ...(clientInfo !== undefined && { [`${metaPrefix}clientInfo`]: clientInfo }),
    ...(logLevel !== undefined && { [`${metaPrefix}logLevel`]: JSON.stringify(logLevel) }),
  };
}

/** Tasks of the modern era, which have no legacy equivalent. */
const tasksExtension = `${metaPrefix}tasks`;

/**
 * The capabilities of a client or server that both eras understand: all but tasks, which differ between the eras. Other
 * extensions, such as MCP Apps, stay, because both eras negotiate them by the same names.
 */
function sharedCapabilities(
  capabilities: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { tasks: _, extensions, ...others } = capabilities;
  if (typeof extensions !== 'object' || extensions === null) return others;
  const kept = Object.entries(extensions).filter(([name]) => name !== tasksExtension);
  return { ...others, ...(kept.length > 0 && { extensions: Object.fromEntries(kept) }) };
}

/** RFC 5424 §6.2.1 */
export const logLevels: ReadonlySet<string> = new Set([
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]);

/** The severity of a log level as a number, from 0 for `debug`. An unknown level counts as `debug`. */
export function severityOf(level: string | undefined): number {
  return Math.max(0, [...logLevels].indexOf(level ?? ''));
}

/**
 * A member of `_meta` that only the parts of Latchkey use among themselves. In an answer to `server/discover`, it announces that legacy
 * tasks are available. In `subscriptions/listen`, it asks for notifications about them.
 */
export const legacyTasks = 'dev.latchkey/legacyTasks';

/** Announces the status of a task of the legacy era. MCP 2025-11-25 tasks */
export const taskStatus = 'notifications/tasks/status';

/** Announces that the roots of a legacy client changed. The modern era has no such message: its servers ask for roots with each call. */
export const rootsChanged = 'notifications/roots/list_changed';

/** The requests that a server may send to a client, with the capability that the client needs for each. */
export const clientRequests: ReadonlyMap<string, string> = new Map([
  ['elicitation/create', 'elicitation'],
  ['sampling/createMessage', 'sampling'],
  ['roots/list', 'roots'],
]);

export interface ModernRequestChanges {
  /** Another id, as JSON text. */
  readonly id?: string;
  /** Additional members of `params`. */
  readonly params?: MemberChanges;
}

/**
 * Translates a legacy request to the modern era, with the client description in `_meta`. Everything else keeps its
 * bytes.
 */
export function modernRequest(
  message: Message,
  client: ClientDescription,
  changes: ModernRequestChanges = {},
): Message {
  const { body, envelope } = message;
  return messageOf(modernRequestBytes(body, envelope.root, metaOf(client), changes).toString());
}

/** Translates the message at `root` as `modernRequest` does; `meta` is the result of `metaOf`. */
export function modernRequestBytes(
  bytes: Buffer,
  root: Span,
  meta: MemberChanges,
  { id, params: more = {} }: ModernRequestChanges = {},
): Buffer {
  const params = jsonMembers(bytes, root)?.get('params');
  const given = params && jsonMembers(bytes, params)?.get('_meta');
  const changed = withMembers(bytes, params, { ...more, _meta: withMembers(bytes, given, meta) });
  return withMembers(bytes, root, { params: changed, ...(id !== undefined && { id }) });
}

const clientNames = memberNames(
  `${metaPrefix}clientCapabilities`,
  `${metaPrefix}clientInfo`,
  `${metaPrefix}logLevel`,
);
/** The members of `_meta` that describe the client. */
const describing = [...memberNames(`${metaPrefix}protocolVersion`), ...clientNames];
const describingAndToken = [...memberNames('progressToken'), ...describing];
const multiRound = memberNames('_meta', 'inputResponses', 'requestState');
const idAndParams = memberNames('id', 'params');

/**
 * Translates a modern request to the legacy era. The request gets our own `id` (JSON text), which also replaces its
 * progress token, and loses the client description and the members of multi round-trip requests. Everything else keeps its bytes.
 */
export function legacyRequest(message: Message, id: string): Message {
  const { body, envelope } = message;
  const legacyMeta = legacyMetaOf(message, id);
  const written = new JsonWriter(body.length + id.length + 64);
  written.text('{');
  if (written.members(body, envelope.root, idAndParams, envelope.params)) written.text(',');
  written.text('"id":');
  const idAt = written.length;
  written.text(id);
  const idSpan = { start: idAt, end: written.length };
  written.text(',"params":{');
  const paramsAt = written.length - 1;
  const hasParams = written.members(body, envelope.params, multiRound, envelope.meta);
  if (legacyMeta) written.text(hasParams ? ',"_meta":' : '"_meta":');
  const metaAt = written.length;
  if (legacyMeta) written.copy(legacyMeta, 0, legacyMeta.length);
  const metaSpan = { start: metaAt, end: written.length };
  written.text('}');
  const params = { start: paramsAt, end: written.length };
  written.text('}');
  const bytes = written.written;
  // `notAString` names only the first such member. If that was `requestState`, which is now removed, scan again for the next one.
  if (envelope.notAString === 'requestState') return messageOf(bytes);
  const { meta: _, protocolVersion: __, requestState: ___, progressToken, ...kept } = envelope;
  return {
    body: bytes,
    envelope: {
      ...kept,
      root: { start: 0, end: bytes.length },
      id,
      idSpan,
      params,
      ...(legacyMeta && { meta: metaSpan }),
      ...(progressToken !== undefined && { progressToken: id }),
    },
  };
}

/** The `_meta` of the legacy request; `undefined` if it would be empty. */
function legacyMetaOf({ body, envelope }: Message, id: string): Buffer | undefined {
  const { meta, progressToken } = envelope;
  if (!meta) return undefined;
  const hasToken = progressToken !== undefined;
  const written = new JsonWriter(meta.end - meta.start + id.length);
  written.text('{');
  const hasOthers = written.members(body, meta, hasToken ? describingAndToken : describing);
  if (hasToken) written.text(`${hasOthers ? ',' : ''}"progressToken":${id}`);
  written.text('}');
  return hasOthers || hasToken ? written.written : undefined;
}

/** The client description of a modern request. MCP 2026-07-28 basic */
export function clientOf(message: Message): ClientDescription {
  const { capabilities, clientInfo, logLevel } = clientTextsOf(message);
  const named = membersOf(capabilities === undefined ? {} : JSON.parse(capabilities));
  const level: unknown = logLevel === undefined ? undefined : JSON.parse(logLevel);
  return {
    capabilities: JSON.stringify(sharedCapabilities(named)),
    clientInfo,
    logLevel: typeof level === 'string' ? level : undefined,
  };
}

/** The members of a modern request that `clientOf` reads, as JSON text. */
export function clientTextsOf({ body, envelope: { meta } }: Message) {
  const spans = meta ? valuesOf(body, meta, clientNames) : [];
  const [capabilities, clientInfo, logLevel] = spans.map(
    (span) => span && body.toString('utf8', span.start, span.end),
  );
  return { capabilities, clientInfo, logLevel };
}

const added = ['resultType', 'ttlMs', 'cacheScope'];
const openBrace = 0x7b;

/**
 * Translates a modern upstream's response to `method` for a legacy caller, under that caller's id (JSON text).
 * Members that only the modern era has are removed, and so are output schemas and structured content that are not
 * objects, because a legacy caller would reject the whole response. All other values keep their bytes.
 */
export function legacyResult(response: Message, method: string, id: string): Message {
  const { body, envelope } = response;
  const result = spanAt(response, 'result');
  const changes = result
    ? { result: withMembers(body, result, legacyChanges(body, result, method)) }
    : legacyError(response);
  return messageOf(changedObject(body, envelope.root, { id, ...changes }));
}

/** The changes that `legacyResult` makes to the result at `result`; empty if there are none. */
export function legacyChanges(
  body: Buffer,
  result: Span,
  method: string | undefined,
): MemberChanges {
  const members = jsonMembers(body, result) ?? new Map<string, Span>();
  const changes: Record<string, string | Buffer | undefined> = {};
  for (const name of added) if (members.has(name)) changes[name] = undefined;
  const content = members.get('structuredContent');
  if (content && body[content.start] !== openBrace) changes['structuredContent'] = undefined;
  const tools = method === 'tools/list' ? members.get('tools') : undefined;
  const elements = tools && elementsIn(body, tools);
  if (elements?.some((tool) => hasOtherSchema(body, tool))) {
    changes['tools'] = `[${elements.map((tool) => plainTool(body, tool)).join(',')}]`;
  }
  return changes;
}

function plainTool(body: Buffer, tool: Span): string {
  return hasOtherSchema(body, tool)
    ? changedObject(body, tool, { outputSchema: undefined })
    : body.toString('utf8', tool.start, tool.end);
}

/** Whether the tool has an output schema that allows values other than objects. */
function hasOtherSchema(body: Buffer, tool: Span): boolean {
  const schema = jsonMembers(body, tool)?.get('outputSchema');
  const type = schema && jsonMembers(body, schema)?.get('type');
  return (
    schema !== undefined && (!type || body.toString('utf8', type.start, type.end) !== '"object"')
  );
}

/** Legacy revisions have their own error code for a missing resource. MCP 2025-11-25 resources, "Error Handling" */
function legacyError(response: Message): MemberChanges {
  const isMissing =
    valueAt(response, 'error', 'code') === -32602 &&
    textAt(response, 'error', 'data', 'uri') !== undefined;
  if (!isMissing) return {};
  const error = changedObject(response.body, spanAt(response, 'error'), { code: '-32002' });
  return { error };
}

/** Methods whose results need cache hints. Results of a legacy upstream are marked as not cacheable. */
const cacheable: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/**
 * Translates a legacy upstream's response to `method` for a modern caller, under that caller's id (JSON text), and
 * adds the members that the modern era requires. All other values keep their bytes.
 */
export function modernResult(response: Message, method: string, id: string): Message {
  const { body, envelope } = response;
  const { result, jsonrpc } = envelope;
  if (!result) return modernError(response, id);
  const hasHints = cacheable.has(method);
  const written = new JsonWriter(body.length + id.length + 128);
  written.text(`{"jsonrpc":${jsonrpc ?? '"2.0"'},"id":`);
  const idAt = written.length;
  written.text(id);
  const idSpan = { start: idAt, end: written.length };
  written.text(',"result":{');
  const resultAt = written.length - 1;
  if (written.members(body, result, hasHints ? hinted : completed)) written.text(',');
  written.text(hasHints ? `${isComplete},"ttlMs":0,"cacheScope":"private"}}` : `${isComplete}}}`);
  const bytes = written.written;
  return {
    body: bytes,
    envelope: {
      kind: 'response',
      root: { start: 0, end: bytes.length },
      ...(jsonrpc !== undefined && { jsonrpc }),
      id,
      idSpan,
      result: { start: resultAt, end: bytes.length - 1 },
    },
  };
}

const isComplete = '"resultType":"complete"';
const completed = memberNames('resultType');
const hinted = memberNames('resultType', 'ttlMs', 'cacheScope');

function modernError(response: Message, id: string): Message {
  const { body, envelope } = response;
  const isMissing = valueAt(response, 'error', 'code') === -32002;
  const error = isMissing && changedObject(body, spanAt(response, 'error'), { code: '-32602' });
  return messageOf(withMembers(body, envelope.root, { id, ...(error && { error }) }));
}

/** In the modern era, an unknown method has its own HTTP status. MCP 2026-07-28 transports */
export function modernStatus(response: Message): number {
  if (response.envelope.result) return 200;
  return valueAt(response, 'error', 'code') === -32601 ? 404 : 200;
}

/** The answer to `server/discover`, from the handshake of a legacy upstream. `more` is added to its `_meta`. */
export function discoverResult(initialized: Message, id: string, more: object = {}): Message {
  const capabilities = sharedCapabilities(objectAt(initialized, 'result', 'capabilities'));
  const instructions = stringAt(initialized, 'result', 'instructions');
  const result = {
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities,
    ...(instructions !== undefined && { instructions }),
    ttlMs: 0,
    cacheScope: 'private',
    _meta: { [serverInfoName]: valueAt(initialized, 'result', 'serverInfo'), ...more },
  };
  return resultTo(id, JSON.stringify(result));
}

/** The key of the only question in a round. */
const questionKey = 'input';

/** The result that passes a legacy upstream's question to the caller. MCP 2026-07-28 "Multi Round-Trip Requests" */
export function inputRequiredResult(question: Message, id: string, requestState: string): Message {
  const method = JSON.stringify(question.envelope.method);
  const params = textAt(question, 'params');
  const asked = `{"method":${method}${params === undefined ? '' : `,"params":${params}`}}`;
  const state = JSON.stringify(requestState);
  return resultTo(
    id,
    `{"resultType":"input_required","inputRequests":{"${questionKey}":${asked}},"requestState":${state}}`,
  );
}

/** The response to the upstream's question in a caller's retry, if present. */
export function givenResponse(retry: Message, question: Message): Message | undefined {
  const given = textAt(retry, 'params', 'inputResponses', questionKey);
  return given === undefined ? undefined : resultTo(question.envelope.id ?? 'null', given);
}

/** Returns the value at `path` in the result of `server/discover`, by which a modern server describes itself. */
export type Discovered = (...path: string[]) => unknown;

/**
 * The result of a caller's `initialize`, as JSON text, made from the modern server's `server/discover` result. It
 * confirms the revision that the caller asked for if we speak it, and otherwise names our newest legacy revision. It
 * announces that the lists named in `changing` may change, even if the server does not say so. `more` are further capabilities.
 *
 * MCP 2025-11-25 lifecycle; MCP 2026-07-28 server/discover
 */
export function initializeResult(
  asked: string | undefined,
  discovered: Discovered,
  changing: readonly string[] = [],
  more: object = {},
): string {
  const capabilities = sharedCapabilities(objectOf(discovered('capabilities')) ?? {});
  const lists = changing.flatMap((name) => {
    const list = objectOf(capabilities[name]);
    return list ? [[name, { ...list, listChanged: true }] as const] : [];
  });
  const serverInfo = objectOf(discovered('_meta', serverInfoName)) ??
    objectOf(discovered('serverInfo')) ?? { name: 'unnamed', version: '0' };
  const instructions = discovered('instructions');
  return JSON.stringify({
    protocolVersion: legacyVersions.find((version) => version === asked) ?? legacyVersions[0],
    capabilities: { ...capabilities, ...Object.fromEntries(lists), ...more },
    serverInfo,
    ...(typeof instructions === 'string' && { instructions }),
  });
}

/** The answer to a caller's `initialize`, as in `initializeResult`. */
export function initializeAnswer(
  initialize: Message,
  discovered: Message,
  more: object = {},
): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const found: Discovered = (...path) => valueAt(discovered, 'result', ...path);
  const result = initializeResult(asked, found, [], more);
  return resultTo(initialize.envelope.id ?? 'null', result);
}

/**
 * The capabilities of a legacy caller (JSON text) in modern terms: without tasks, and with `{"form":{}}` for an
 * empty `elicitation`, which means the same. All other values keep their bytes.
 */
export function modernCapabilities(capabilities = '{}'): string {
  const bytes = Buffer.from(capabilities);
  const whole = { start: 0, end: bytes.length };
  const members = jsonMembers(bytes, whole);
  const elicitation = members?.get('elicitation');
  const isForms = elicitation && jsonMembers(bytes, elicitation)?.size === 0;
  const extensions = members?.get('extensions');
  const kept = extensions && changedObject(bytes, extensions, { [tasksExtension]: undefined });
  return changedObject(bytes, whole, {
    tasks: undefined,
    ...(kept !== undefined && { extensions: kept === '{}' ? undefined : kept }),
    ...(isForms && { elicitation: '{"form":{}}' }),
  });
}

function objectOf(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}

/** The maximum number of requests for input in one result. A person has to answer each of them. */
export const maxInputRequests = 100;

/** Input that a modern upstream needs before it can continue. */
export interface NeededInput {
  /** By the upstream's key; `params` is JSON text. */
  readonly requests: readonly {
    readonly key: string;
    readonly method: string;
    readonly params: string;
  }[];
  /** JSON text, to be returned unchanged. */
  readonly requestState: string | undefined;
}

/**
 * The input that a response asks for; `undefined` if the response is complete. Returns at most one request
 * more than `maxInputRequests`, so that the caller can detect that there are too many.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function neededInput(response: Message): NeededInput | undefined {
  if (stringAt(response, 'result', 'resultType') !== 'input_required') return undefined;
  const asked = spanAt(response, 'result', 'inputRequests');
  const { body } = response;
  const members = asked ? [...membersIn(body, asked)] : [];
  return {
    requests: members.slice(0, maxInputRequests + 1).map(([key, span]) => {
      const request = membersIn(body, span);
      const params = request.get('params');
      return {
        key,
        method: stringIn(body, request.get('method')) ?? '',
        params: params ? body.toString('utf8', params.start, params.end) : '{}',
      };
    }),
    requestState: textAt(response, 'result', 'requestState'),
  };
}
