import { withMembers } from 'latchkey-mcp/json-edit';
import { readMessage, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import {
  initializeResult,
  legacyChanges,
  metaOf,
  modernCapabilities,
  modernRequestBytes,
  modernVersion,
  type ModernRequestChanges,
} from 'latchkey-mcp/translation';
import { UpstreamError, type Upstream } from '#transport/upstream';

/** What every request of the modern era says about who sends it, as JSON texts by `_meta` key. */
export type Envelope = Readonly<Record<string, string>>;

/** The envelope that says what an assistant said once, in its `initialize`. MCP 2026-07-28 basic */
export function envelopeOf(initialize: Message, logLevel?: string): Envelope {
  return metaOf({
    capabilities: modernCapabilities(textAt(initialize, 'params', 'capabilities')),
    clientInfo: textAt(initialize, 'params', 'clientInfo'),
    logLevel,
  });
}

/**
 * A request or notification of the older era as one of the modern era: with the envelope in its
 * `_meta`. Everything else stays byte for byte.
 */
export function modernRequest(
  { bytes }: Message,
  envelope: Envelope,
  changes: ModernRequestChanges = {},
): Message {
  const whole = { start: 0, end: bytes.length };
  return readMessage(modernRequestBytes(bytes, whole, envelope, changes));
}

const unsupportedVersion = '-32022';

/** What a person or the network has to mend first says nothing about the server's era. */
const inconclusive = new Set<UpstreamError['code']>([
  'unreachable',
  'unauthorized',
  'suspended',
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
    let response: Message | undefined;
    try {
      await upstream.send(
        modernRequest(request, envelope),
        (message) => {
          if (message.kind === 'response') response = message;
          return Promise.resolve();
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof UpstreamError) || inconclusive.has(error.code)) throw error;
    }
    return response;
  }
}

function speaksOurs(answer: Message | undefined, ...path: string[]): answer is Message {
  if (!answer) return false;
  const code = textAt(answer, 'error', 'code');
  if (path[0] === 'error' && code !== unsupportedVersion) return false;
  const versions: unknown = JSON.parse(textAt(answer, ...path) ?? 'null');
  return Array.isArray(versions) && versions.includes(modernVersion);
}

/**
 * The answer to an assistant's `initialize`, made of what a modern server said of itself. Its lists may change: the
 * proxy says so when they do.
 */
export function initializeAnswer(initialize: Message, discovered: Message): Message {
  const result = initializeResult(
    stringAt(initialize, 'params', 'protocolVersion'),
    (...path) => JSON.parse(textAt(discovered, 'result', ...path) ?? 'null'),
    ['tools', 'resources', 'prompts'],
  );
  return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${initialize.id},"result":${result}}`));
}

/**
 * A modern server's answer to `method` as an assistant of the older era can read it: without the
 * members that came later, and without schemas and structured content that are no objects, for which
 * such an assistant would refuse the whole answer. The other bytes stay. Errors stay as they are.
 */
export function legacyAnswer(answer: Message, method: string | undefined): Message {
  const { bytes, members } = answer;
  const result = members.get('result');
  const changes = result && legacyChanges(bytes, result, method);
  if (!changes || Object.keys(changes).length === 0) return answer;
  const whole = { start: 0, end: bytes.length };
  return readMessage(withMembers(bytes, whole, { result: withMembers(bytes, result, changes) }));
}
