import type { IncomingHttpHeaders } from 'node:http';
import type { ProvedCredential } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { GatewayPorts } from './gateway.ts';
import { readMessage } from './read-message.ts';
import { whenGone, type Call, type GatewayAnswer, type GatewayRequest } from './request.ts';
import { instanceOf } from './sessions.ts';

/** A call for the node that has its session. It carries no credential, only what the credential proved. */
export interface NodeCall {
  readonly request: Pick<
    GatewayRequest,
    'id' | 'organization' | 'server' | 'method' | 'headers' | 'address'
  >;
  readonly proved: ProvedCredential;
  readonly body: Buffer | undefined;
  /** Aborts when the caller no longer waits. */
  readonly signal: AbortSignal;
}

/** The other nodes that share the database. */
export interface OtherNodes {
  /** Of this process. It begins the ids of its sessions. */
  readonly instance: string;
  /**
   * Sends a call to another node, which admits the caller again and answers.
   *
   * @throws {GatewayRefusal} `unknown_session`, `node_unreachable`, `node_lost`
   */
  readonly send?: ((instance: string, call: NodeCall) => Promise<GatewayAnswer>) | undefined;
}

/** The other node that has the session of a call; `undefined` for a call that this node answers. */
export function nodeOf(
  { headers }: { readonly headers: IncomingHttpHeaders },
  { nodes }: Pick<GatewayPorts, 'nodes'>,
): string | undefined {
  const id = headers['mcp-session-id'];
  if (!nodes?.send || typeof id !== 'string') return undefined;
  const instance = instanceOf(id);
  return instance === nodes.instance ? undefined : instance;
}

/**
 * Passes an admitted call to the node that has its session, and its answer back as it comes. That node counts and limits it;
 * here it only ends when its caller loses access.
 *
 * @throws {GatewayRefusal}
 */
export async function passToNode(
  instance: string,
  { request, ending, endless, finish }: Call,
  proved: ProvedCredential,
  {
    nodes,
    noteId,
  }: { readonly nodes: OtherNodes | undefined; readonly noteId: (id: string) => void },
): Promise<GatewayAnswer> {
  if (!nodes?.send) throw new GatewayRefusal('unknown_session');
  const message = request.method === 'POST' ? await readMessage(request) : undefined;
  if (message) noteId(message.envelope.id ?? 'null');
  if (request.method === 'GET') endless();
  whenGone(request, () => ending.abort());
  const { signal } = ending;
  const answer = await nodes.send(instance, { request, proved, body: message?.body, signal });
  const { body } = answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    finish();
    return answer;
  }
  return { ...answer, body: passed(body, signal, finish) };
}

async function* passed(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  finish: Call['finish'],
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    // It was ended here: a draining server ends its streams, as it does those of its own sessions.
    if (!signal.aborted) throw error;
  } finally {
    finish();
  }
}
