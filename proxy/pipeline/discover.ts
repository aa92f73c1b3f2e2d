import { modernRevision, type Envelope } from './envelope.ts';
import { modernRequest } from './modern-request.ts';
import { readMessage, textAt, type Message } from '#jsonrpc/message';
import { UpstreamError, type Upstream } from '#transport/upstream';

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
