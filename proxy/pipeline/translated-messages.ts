import { elementsIn, withMembers, type MemberChanges } from 'latchkey-mcp/json-edit';
import { jsonMembers, type Span } from 'latchkey-mcp/json';
import { readMessage, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import { UpstreamError, type Upstream } from '#transport/upstream';

/** The revision that is spoken to servers without a handshake. */
const modernRevision = '2026-07-28';

/** What every request of the modern era says about who sends it, as JSON texts by `_meta` key. */
export type Envelope = Readonly<Record<string, string>>;

const prefix = 'io.modelcontextprotocol/';

/** The envelope that says what an assistant said once, in its `initialize`. MCP 2026-07-28 basic */
export function envelopeOf(initialize: Message, logLevel?: string): Envelope {
  const clientInfo = textAt(initialize, 'params', 'clientInfo');
  return {
    [`${prefix}protocolVersion`]: JSON.stringify(modernRevision),
    ...(clientInfo !== undefined && { [`${prefix}clientInfo`]: clientInfo }),
    [`${prefix}clientCapabilities`]: modernCapabilities(
      textAt(initialize, 'params', 'capabilities'),
    ),
    ...(logLevel !== undefined && { [`${prefix}logLevel`]: JSON.stringify(logLevel) }),
  };
}

/** Tasks became an extension with another wire format, and an empty `elicitation` meant forms. */
function modernCapabilities(json: string | undefined): string {
  const bytes = Buffer.from(json ?? '{}');
  const said: unknown = JSON.parse(bytes.toString());
  const forms =
    typeof said === 'object' &&
    said !== null &&
    'elicitation' in said &&
    JSON.stringify(said.elicitation) === '{}';
  const span = { start: 0, end: bytes.length };
  const changes = { tasks: undefined, ...(forms && { elicitation: '{"form":{}}' }) };
  return withMembers(bytes, span, changes).toString();
}

type ModernRequestChanges = {
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

const unsupportedVersion = '-32022';

/** What a person or the network has to mend first says nothing about the server's era. */
const inconclusive = new Set<UpstreamError['code']>([
  'unreachable',
  'unauthorized',
  'forbidden',
  'aborted',
]);

/**
 * What a server says of itself to a client of the modern era; `undefined` when it does not speak the
 * revision that we do.
 *
 * MCP 2026-07-28 server/discover
 *
 * @throws {UpstreamError} when the server could not be asked, or what the credential rejects with
 */
export async function discover(
  upstream: Upstream,
  envelope: Envelope,
  signal: AbortSignal,
): Promise<Message | undefined> {
  const first = await ask(1);
  // Some servers refuse a version that they announce, once.
  const answer = speaksOurs(first, 'error', 'data', 'supported') ? await ask(2) : first;
  return speaksOurs(answer, 'result', 'supportedVersions') ? answer : undefined;

  async function ask(attempt: number): Promise<Message | undefined> {
    const id = `"latchkey-discover-${attempt}"`;
    const request = readMessage(
      Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":"server/discover"}`),
    );
    let said: Message | undefined;
    try {
      await upstream.send(
        modernRequest(request, envelope),
        (message) => {
          if (message.kind === 'response') said = message;
          return Promise.resolve();
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof UpstreamError) || inconclusive.has(error.code)) throw error;
    }
    return said;
  }
}

function speaksOurs(answer: Message | undefined, ...path: string[]): answer is Message {
  if (!answer) return false;
  const code = textAt(answer, 'error', 'code');
  if (path[0] === 'error' && code !== unsupportedVersion) return false;
  const versions: unknown = JSON.parse(textAt(answer, ...path) ?? 'null');
  return Array.isArray(versions) && versions.includes(modernRevision);
}

type Json = Record<string, unknown>;

/** Newest first. */
const legacyRevisions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07'];
const lists = ['tools', 'resources', 'prompts'];

/**
 * The answer to an assistant's `initialize`, made of what a modern server said of itself: the revision
 * that the assistant asked for, as it is we who speak it, and lists that may change.
 *
 * MCP 2025-11-25 lifecycle, MCP 2026-07-28 server/discover
 */
export function initializeAnswer(initialize: Message, discovered: Message): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const protocolVersion = legacyRevisions.find((known) => known === asked) ?? legacyRevisions[0];
  const result: Json = {
    protocolVersion,
    capabilities: capabilities(discovered),
    serverInfo: object(
      textAt(discovered, 'result', '_meta', 'io.modelcontextprotocol/serverInfo'),
    ) ??
      object(textAt(discovered, 'result', 'serverInfo')) ?? { name: 'unnamed', version: '0' },
  };
  const instructions = stringAt(discovered, 'result', 'instructions');
  if (instructions !== undefined) result['instructions'] = instructions;
  const text = JSON.stringify(result);
  return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${initialize.id},"result":${text}}`));
}

function capabilities(discovered: Message): Json {
  const said = object(textAt(discovered, 'result', 'capabilities')) ?? {};
  const changing = lists.flatMap((name) => {
    const list = said[name];
    return isObject(list) ? [[name, { ...list, listChanged: true }] as const] : [];
  });
  return { ...said, ...Object.fromEntries(changing) };
}

function object(json: string | undefined): Json | undefined {
  const value: unknown = json === undefined ? undefined : JSON.parse(json);
  return isObject(value) ? value : undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const added = ['resultType', 'ttlMs', 'cacheScope'];

/**
 * A modern server's answer to `method` as an assistant of the older era can read it: without the
 * members that came later, and without schemas and structured content that are no objects, for which
 * such an assistant would refuse the whole answer. The other bytes stay. Errors stay as they are.
 */
export function legacyAnswer(answer: Message, method: string | undefined): Message {
  const { bytes, members } = answer;
  const result = members.get('result');
  const within = result && jsonMembers(bytes, result);
  if (!within) return answer;
  const changes: Record<string, MemberChanges[string]> = {};
  for (const name of added) if (within.has(name)) changes[name] = undefined;
  const content = within.get('structuredContent');
  if (content && bytes[content.start] !== 0x7b) changes['structuredContent'] = undefined;
  const tools = method === 'tools/list' ? within.get('tools') : undefined;
  if (tools) changes['tools'] = plainTools(bytes, tools);
  if (Object.keys(changes).length === 0) return answer;
  const whole = { start: 0, end: bytes.length };
  const changed = withMembers(bytes, result, changes);
  return readMessage(withMembers(bytes, whole, { result: changed }));
}

function plainTools(bytes: Buffer, span: Span): Buffer {
  const tools = elementsIn(bytes, span);
  if (!tools) return bytes.subarray(span.start, span.end);
  const texts = tools.map((tool) => {
    const schema = jsonMembers(bytes, tool)?.get('outputSchema');
    return schema && !isObjectSchema(bytes, schema)
      ? withMembers(bytes, tool, { outputSchema: undefined })
      : bytes.subarray(tool.start, tool.end);
  });
  const parts = texts.flatMap((text, index) => (index === 0 ? [text] : [Buffer.from(','), text]));
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')]);
}

function isObjectSchema(bytes: Buffer, schema: Span): boolean {
  const type = jsonMembers(bytes, schema)?.get('type');
  return type !== undefined && bytes.toString('utf8', type.start, type.end) === '"object"';
}
