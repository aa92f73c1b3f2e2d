import { stringAt } from 'latchkey-mcp/json-edit';
import {
  type ProvedCredential,
  whenGone,
  type GatewayAnswer,
  type GatewayRequest,
} from './request.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { RateChange } from './limits.ts';
import { instanceOfState } from './modern-adapter.ts';
import { type Call, type MessageCall } from './call.ts';
import { instanceOf } from './sessions.ts';
import type { Tracing } from 'latchkey-mcp/tracing';

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
  /** Tells all other nodes. */
  readonly tell?: ((event: GatewayEvent) => void) | undefined;
}

interface NodePorts {
  /** Absent where no other node shares the database. */
  readonly nodes?: OtherNodes | undefined;
}

/** What the gateways of several nodes tell each other. */
export type GatewayEvent =
  | { readonly type: 'cancelled'; readonly owner: string; readonly request: string }
  | { readonly type: 'counted'; readonly counts: RateChange[] };

/** The other node that has the session of a call; `undefined` for a call that this node answers. */
export function nodeOf(
  request: Pick<GatewayRequest, 'headers' | 'isPassedOn'>,
  { nodes }: NodePorts,
): string | undefined {
  const id = request.headers['mcp-session-id'];
  return typeof id === 'string' ? otherThan(nodes, request, instanceOf(id)) : undefined;
}

/**
 * The other node that waits for the response which a call brings to a question of its upstream; `undefined` for a call that
 * this node answers. `message` has the state that `InterruptedCalls` handed out, without its seal.
 */
export function nodeOfResponse(
  { envelope: { requestState }, body }: Pick<MessageCall, 'envelope' | 'body'>,
  request: Pick<GatewayRequest, 'isPassedOn'>,
  { nodes }: NodePorts,
): string | undefined {
  if (!requestState) return undefined;
  return otherThan(nodes, request, instanceOfState(stringAt(body, requestState) ?? ''));
}

/** The node that a call names, if it is to be passed there. */
function otherThan(
  nodes: OtherNodes | undefined,
  { isPassedOn }: Pick<GatewayRequest, 'isPassedOn'>,
  named: string | undefined,
): string | undefined {
  // A call that could be passed on again would go in circles between two nodes that it names.
  if (!nodes?.send || isPassedOn) return undefined;
  return named === nodes.instance ? undefined : named;
}

/**
 * Passes an admitted call to another node, and its answer back as it comes. That node counts and limits it; here it only ends
 * when its caller loses access. It is not metered here, so its outcome is for its span alone.
 *
 * @throws {GatewayRefusal}
 */
export async function passToNode(
  instance: string,
  { request, proved, headers, ending, endless, finish }: Call,
  sent: Buffer | undefined,
  { nodes, tracing }: NodePorts & { readonly tracing?: Tracing | undefined },
): Promise<GatewayAnswer> {
  if (!nodes?.send) throw new GatewayRefusal('unknown_session');
  if (request.method === 'GET') endless();
  whenGone(request, () => ending.abort());
  const { signal } = ending;
  const { send } = nodes;
  const pass = (passedOn: NodeCall['request']) =>
    send(instance, { request: passedOn, proved, body: sent, signal });
  const { id, organization, server, method, address } = request;
  const described = { id, organization, server, method, headers, address };
  const answer = tracing
    ? await tracing.within(
        'call of another node',
        { 'latchkey.server': `${organization}/${server}` },
        described,
        pass,
      )
    : await pass(described);
  const { body } = answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    finish('ok');
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
    if (signal.aborted) return;
    finish('upstream-error');
    throw error;
  } finally {
    finish('ok');
  }
}
