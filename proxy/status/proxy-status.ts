import type { Clock, EpochSeconds } from '#clock/clock';
import { modernVersion, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import { titleOfClient } from '#config/assistants';
import type { Presence, ConnectionState, Trouble } from '#pipeline/contact';
import type { ProxyState, RunningProxy } from './running-proxy.ts';

/** The part of the status that is known when a proxy starts. */
export type ProxyIdentity = Pick<RunningProxy, 'pid' | 'name' | 'url' | 'account'>;

/** The meaning of a request's error for the connection as a whole. */
export type Fault = { state: 'needs_sign_in' | 'offline' | 'trouble'; reason: string };

/** The state that other programs see for each kind of trouble. */
export const publicStates = {
  offline: 'offline',
  signed_out: 'needs_sign_in',
  account: 'trouble',
} as const satisfies Record<Trouble['kind'], Fault['state']>;

/** The status of a running proxy, which its messages and its offline cache report. */
export interface ProxyStatus extends Presence {
  requestSent(request: Message): void;
  answerReceived(request: Message, answer: Message, durationMs: number): void;
  requestFailed(request: Message, fault: Fault, durationMs: number): void;
  /** The display name of the assistant, after its first request. */
  assistant(): string | undefined;
  snapshot(): Omit<RunningProxy, 'version' | 'scopes' | 'expiresAt'>;
}

const clientKey = 'io.modelcontextprotocol/clientInfo';
/** Only the envelope of longer results is read. */
const longestReadBytes = 16 * 1024;

type Call = { at: EpochSeconds; method: string; durationMs: number; answer: Message | undefined };

/** `changed` is called after each event that changes the snapshot. */
export function proxyStatus(
  identity: ProxyIdentity,
  clock: Clock,
  changed: () => void,
): ProxyStatus {
  const startedAt = clock.now();
  let connectionState: ConnectionState = { state: 'online' };
  let fault: (Fault & { sinceAt: EpochSeconds }) | undefined;
  let readyAt: EpochSeconds | undefined;
  let call: Call | undefined;
  let handshake: Message | undefined;
  let era: RunningProxy['era'];

  function stateNow(): { state: ProxyState; sinceAt: EpochSeconds; reason?: string } {
    if (connectionState.state !== 'online') {
      const { state, sinceAt, reason } = connectionState;
      return { state: publicStates[state], sinceAt, reason };
    }
    if (fault) return fault;
    if (readyAt === undefined) return { state: 'connecting', sinceAt: startedAt };
    return { state: 'ready', sinceAt: readyAt };
  }

  function note(request: Message, answer: Message | undefined, durationMs: number): void {
    const { method = '' } = request;
    call = { at: clock.now(), method, durationMs: Math.round(durationMs), answer };
    changed();
  }

  return {
    changed(now) {
      connectionState = now;
      if (now.state === 'online') fault = undefined;
      readyAt = now.state === 'online' ? clock.now() : undefined;
      changed();
    },
    requestSent(request) {
      if (era !== undefined && request.method !== 'initialize') return;
      era = modernVersion(request) === undefined ? 'legacy' : 'modern';
      handshake = request;
    },
    answerReceived(request, answer, durationMs) {
      // While the server is unreachable, the answer came from the offline cache.
      if (connectionState.state === 'online') {
        if (fault || readyAt === undefined) readyAt = clock.now();
        fault = undefined;
      }
      note(request, answer, durationMs);
    },
    requestFailed(request, { state, reason }, durationMs) {
      fault = { state, reason, sinceAt: fault?.state === state ? fault.sinceAt : clock.now() };
      note(request, undefined, durationMs);
    },
    assistant: () => handshake && titleOf(handshake),
    snapshot() {
      const assistant = handshake && assistantOf(handshake);
      return {
        ...identity,
        startedAt,
        ...stateNow(),
        ...(assistant && { assistant }),
        ...(era !== undefined && { era }),
        ...(call && {
          lastCall: {
            at: call.at,
            method: call.method,
            outcome: outcomeOf(call.answer),
            durationMs: call.durationMs,
          },
        }),
      };
    },
  };
}

function outcomeOf(answer: Message | undefined): 'ok' | 'tool_error' | 'failed' {
  if (!answer || answer.members.has('error')) return 'failed';
  if (answer.bytes.length > longestReadBytes) return 'ok';
  return textAt(answer, 'result', 'isError') === 'true' ? 'tool_error' : 'ok';
}

const clientInfoOf = ({ method }: Message) =>
  method === 'initialize' ? ['params', 'clientInfo'] : ['params', '_meta', clientKey];

function titleOf(handshake: Message): string | undefined {
  const title = stringAt(handshake, ...clientInfoOf(handshake), 'title')?.trim();
  const name = stringAt(handshake, ...clientInfoOf(handshake), 'name');
  return title || (name && titleOfClient(name));
}

function assistantOf(handshake: Message): RunningProxy['assistant'] {
  const path = clientInfoOf(handshake);
  const name = stringAt(handshake, ...path, 'name');
  const version = stringAt(handshake, ...path, 'version');
  if (name === undefined) return undefined;
  return {
    name: name.slice(0, 100),
    ...(version !== undefined && { version: version.slice(0, 50) }),
  };
}
