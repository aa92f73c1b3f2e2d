import type { GatewayAnswer, GatewayRequest } from '#gateway/exchange';

const maxAnswerBytes = 1024 * 1024;
const patienceMs = 30_000;

/** Who asks which server for what, from a page of ours. */
export interface ConsoleCall {
  /** A person whose session and membership the page has just looked up; the gateway looks again. */
  readonly userId: string;
  readonly organization: string;
  readonly server: string;
  /** Where they are. */
  readonly address: string;
  /** The `X-Request-Id` of the page. */
  readonly requestId: string;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** What came back: JSON-RPC as text, or why there is none. */
export type ConsoleAnswer =
  | { readonly outcome: 'answered'; readonly text: string }
  | { readonly outcome: 'too-large' | 'late' | 'broken' };

/** Never rejects: what goes wrong is an answer. */
export type CallServer = (call: ConsoleCall) => Promise<ConsoleAnswer>;

/**
 * Sends what a person tries through the gateway as any caller's request, with all its checks. Waits thirty seconds at
 * most, and reads a mebibyte.
 */
export function consoleCalls(gateway: {
  handle(request: GatewayRequest): Promise<GatewayAnswer>;
}): CallServer {
  return async ({ userId, organization, server, address, requestId, method, params }) => {
    const gone = new AbortController();
    const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = gateway
      .handle({
        id: requestId,
        address,
        method: 'POST',
        organization,
        server,
        headers: { 'content-type': 'application/json' },
        rawHeaders: [],
        person: userId,
        readBody: async () => Buffer.from(message),
        gone: gone.signal,
      })
      .then(read)
      .catch(() => ({ outcome: 'broken' }) as const);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<ConsoleAnswer>((resolve) => {
      timer = setTimeout(() => resolve({ outcome: 'late' }), patienceMs);
    });
    const first = await Promise.race([answer, late]);
    clearTimeout(timer);
    if (first.outcome !== 'answered') gone.abort();
    return first;
  };
}

async function read({ body }: GatewayAnswer): Promise<ConsoleAnswer> {
  if (body === undefined) return { outcome: 'broken' };
  if (typeof body === 'string') return { outcome: 'answered', text: body };
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body instanceof Uint8Array ? [body] : body) {
    bytes += chunk.length;
    if (bytes > maxAnswerBytes) return { outcome: 'too-large' };
    chunks.push(chunk);
  }
  return { outcome: 'answered', text: Buffer.concat(chunks).toString('utf8') };
}
