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

/** The metadata that every modern request carries about its sender, as JSON texts by `_meta` key. */
export type Envelope = Readonly<Record<string, string>>;

/** The envelope, made from the details that a legacy assistant sends only once, in `initialize`. MCP 2026-07-28 basic */
export function envelopeOf(initialize: Message, logLevel?: string): Envelope {
  return metaOf({
    capabilities: modernCapabilities(textAt(initialize, 'params', 'capabilities')),
    clientInfo: textAt(initialize, 'params', 'clientInfo'),
    logLevel,
  });
}

/**
 * Translates a legacy request or notification to a modern one, with the envelope in its `_meta`. All other bytes stay the same.
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

/** Errors that say nothing about the server's era: the network or the person's access has to be fixed first. */
const inconclusive = new Set<UpstreamError['code']>([
  'unreachable',
  'unauthorized',
  'suspended',
  'forbidden',
  'aborted',
]);

/**
 * The server's answer to `server/discover`; `undefined` if it does not support our protocol version.
 *
 * MCP 2026-07-28 server/discover
 *
 * @throws {UpstreamError} if the failure is `inconclusive`; otherwise the error of the credential
 */
export async function discover(
  upstream: Upstream,
  envelope: Envelope,
  signal: AbortSignal,
): Promise<Message | undefined> {
  const first = await ask(1);
  // Some servers refuse a version that they announce, but only once.
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
 * The answer to an assistant's `initialize`, derived from a modern server's answer to `server/discover`. It announces changes of
 * lists, because the proxy reports them.
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
 * Translates a modern server's answer to `method` for a legacy assistant: without newer members, and without schemas and
 * structured content that are not objects, because such an assistant would refuse the whole answer. All other bytes, and
 * errors, stay the same.
 */
export function legacyAnswer(answer: Message, method: string | undefined): Message {
  const { bytes, members } = answer;
  const result = members.get('result');
  const changes = result && legacyChanges(bytes, result, method);
  if (!changes || Object.keys(changes).length === 0) return answer;
  const whole = { start: 0, end: bytes.length };
  return readMessage(withMembers(bytes, whole, { result: withMembers(bytes, result, changes) }));
}
