import type { EndSignal } from '#model/ending';
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
  readonly signal: EndSignal;
}

/** The other nodes that share the database. */
export interface OtherNodes {
  /** Identifies this process. The ids of its sessions begin with it. */
  readonly instance: string;
  /**
   * Sends a call to another node, which admits the caller again and answers.
   *
   * @throws {GatewayRefusal} `unknown_session`, `node_unreachable`, `node_lost`
   */
  readonly send?: ((instance: string, call: NodeCall) => Promise<GatewayAnswer>) | undefined;
  /** Sends an event to all other nodes. */
  readonly tell?: ((event: GatewayEvent) => void) | undefined;
}

interface NodePorts {
  /** Absent where no other node shares the database. */
  readonly nodes?: OtherNodes | undefined;
}

/** An event that the gateway of one node sends to the gateways of the others. */
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
 * The other node that keeps the interrupted call that this call responds to; `undefined` for a call that this
 * node answers. The call carries the state that `InterruptedCalls` issued, already unsealed.
 */
export function nodeOfResponse(
  { envelope: { requestState }, body }: Pick<MessageCall, 'envelope' | 'body'>,
  request: Pick<GatewayRequest, 'isPassedOn'>,
  { nodes }: NodePorts,
): string | undefined {
  if (!requestState) return undefined;
  return otherThan(nodes, request, instanceOfState(stringAt(body, requestState) ?? ''));
}

/** The node that a call names, if the call must be passed on. */
function otherThan(
  nodes: OtherNodes | undefined,
  { isPassedOn }: Pick<GatewayRequest, 'isPassedOn'>,
  named: string | undefined,
): string | undefined {
  // A call that may be passed on again could circle between two nodes.
  if (!nodes?.send || isPassedOn) return undefined;
  return named === nodes.instance ? undefined : named;
}

/**
 * Passes an admitted call to another node, and streams its answer back. That node counts and limits the call; this node
 * only ends it when its caller loses access. The call is not metered here, so its outcome is only for its span.
 *
 * @throws {GatewayRefusal}
 */
export async function passToNode(
  instance: string,
  { request, proved, headers, ending, opened, finish }: Call,
  sent: Buffer | undefined,
  { nodes, tracing }: NodePorts & { readonly tracing?: Tracing | undefined },
): Promise<GatewayAnswer> {
  if (!nodes?.send) throw new GatewayRefusal('unknown_session');
  if (request.method === 'GET') opened.endless();
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
  signal: EndSignal,
  finish: Call['finish'],
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    // The answer was ended here: a draining server ends this stream like the streams of its own sessions.
    if (signal.aborted) return;
    finish('upstream-error');
    throw error;
  } finally {
    finish('ok');
  }
}
