import type { Installation, ServerNode } from './installation.ts';
import type { Shot } from './credentials.ts';

/** What became of a request. Without an answer, it is unknown whether it took effect, unless it never reached a node. */
export type Reply =
  | {
      readonly outcome: 'answer';
      readonly status: number;
      readonly retryAfter: string | undefined;
      readonly text: string;
      readonly sessionId: string | undefined;
    }
  | { readonly outcome: 'unreachable' | 'broken' | 'timeout'; readonly code: string };

/** Codes of errors before a request was sent. */
const beforeSending = new Set([
  'ECONNREFUSED',
  'UND_ERR_CONNECT_TIMEOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const late = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Sends a request to one node. Never rejects because of what the node does. */
export async function sendTo(
  node: ServerNode,
  { base }: Pick<Installation, 'base'>,
  { method, path, headers, body }: Shot,
): Promise<Reply> {
  try {
    const answer = await node.pool.request({
      method,
      path,
      headers: { ...headers, host: base.slice('http://'.length) },
      ...(body !== undefined && { body }),
    });
    const text = await answer.body.text();
    const { 'retry-after': retryAfter, 'mcp-session-id': sessionId } = answer.headers;
    return {
      outcome: 'answer',
      status: answer.statusCode,
      text,
      retryAfter: single(retryAfter),
      sessionId: single(sessionId),
    };
  } catch (error) {
    const code = String(Object(error)['code'] ?? error);
    if (beforeSending.has(code)) return { outcome: 'unreachable', code };
    return { outcome: late.has(code) ? 'timeout' : 'broken', code };
  }
}

/** Sends a request as a balancer does: to another node when one cannot be connected to. */
export async function send(installation: Installation, shot: Shot): Promise<Reply> {
  const first = installation.pick();
  const reply = await sendTo(first, installation, shot);
  if (reply.outcome !== 'unreachable') return reply;
  for (const node of installation.nodes) {
    if (node === first) continue;
    const again = await sendTo(node, installation, shot);
    if (again.outcome !== 'unreachable') return again;
  }
  return reply;
}

export function isAccepted(reply: Reply): boolean {
  return reply.outcome === 'answer' && reply.status === 200 && !reply.text.includes('"error":');
}

/** A word for what came back, for counting: `200`, `200 -32602`, `503`, `broken UND_ERR_SOCKET`, … */
export function wordFor(reply: Reply): string {
  if (reply.outcome !== 'answer') return `${reply.outcome} ${reply.code}`;
  const code = /"error":\{"code":(-\d+)/.exec(reply.text)?.[1];
  return code === undefined ? `${reply.status}` : `${reply.status} ${code}`;
}

function single(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.[0];
}

/** Counts words. */
export class Tally {
  readonly #counts = new Map<string, number>();

  add(word: string): void {
    this.#counts.set(word, (this.#counts.get(word) ?? 0) + 1);
  }

  get(word: string): number {
    return this.#counts.get(word) ?? 0;
  }

  /** The most frequent first. */
  toJSON(): Record<string, number> {
    return Object.fromEntries([...this.#counts].toSorted((one, other) => other[1] - one[1]));
  }
}

/** The value at a share of sorted values, to a hundredth. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = Math.min(sorted.length - 1, Math.floor(sorted.length * share));
  return Math.round((sorted[at] ?? Number.NaN) * 100) / 100;
}
