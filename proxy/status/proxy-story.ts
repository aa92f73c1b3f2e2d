import type { Clock, EpochSeconds } from '#clock/clock';
import { stringAt, textAt, type Message } from '#jsonrpc/message';
import { modernVersion } from '#jsonrpc/modern-version';
import type { Presence, Standing } from '#pipeline/contact';
import type { ProxyState, RunningProxy } from './running-proxy.ts';

/** What a proxy knows of itself at its start. */
export type Beginning = Pick<RunningProxy, 'pid' | 'name' | 'url' | 'account'>;

/** What an error of a request says about the connection as a whole. */
export type Fault = { state: 'needs_sign_in' | 'offline' | 'trouble'; reason: string };

/** What has become of a running proxy, noted in passing: nothing is read that nobody asks for. */
export interface ProxyStory extends Presence {
  /** The assistant's request, as it leaves. */
  asked(request: Message): void;
  answered(request: Message, answer: Message, durationMs: number): void;
  failed(request: Message, fault: Fault, durationMs: number): void;
  /** The story so far. */
  told(): Omit<RunningProxy, 'version' | 'scopes' | 'expiresAt'>;
}

const clientKey = 'io.modelcontextprotocol/clientInfo';
/** Of longer results only the envelope is read. */
const longestReadBytes = 16 * 1024;

type Call = { at: EpochSeconds; method: string; durationMs: number; answer: Message | undefined };

/** `changed` hears that there is something to tell. */
export function proxyStory(beginning: Beginning, clock: Clock, changed: () => void): ProxyStory {
  const startedAt = clock.now();
  let standing: Standing = { state: 'online' };
  let fault: (Fault & { sinceAt: EpochSeconds }) | undefined;
  let readyAt: EpochSeconds | undefined;
  let call: Call | undefined;
  let greeting: Message | undefined;
  let era: RunningProxy['era'];

  function stateNow(): { state: ProxyState; sinceAt: EpochSeconds; reason?: string } {
    if (standing.state !== 'online') {
      const state = standing.state === 'offline' ? 'offline' : 'needs_sign_in';
      return { state, sinceAt: standing.sinceAt, reason: standing.reason };
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
      standing = now;
      if (now.state === 'online') fault = undefined;
      readyAt = now.state === 'online' ? clock.now() : undefined;
      changed();
    },
    asked(request) {
      if (era !== undefined && request.method !== 'initialize') return;
      era = modernVersion(request) === undefined ? 'legacy' : 'modern';
      greeting = request;
    },
    answered(request, answer, durationMs) {
      // While the server is away, it was not the server that answered.
      if (standing.state === 'online') {
        if (fault || readyAt === undefined) readyAt = clock.now();
        fault = undefined;
      }
      note(request, answer, durationMs);
    },
    failed(request, met, durationMs) {
      const sinceAt = fault?.state === met.state ? fault.sinceAt : clock.now();
      fault = { ...met, sinceAt };
      note(request, undefined, durationMs);
    },
    told() {
      const assistant = greeting && assistantOf(greeting);
      return {
        ...beginning,
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

function assistantOf(greeting: Message): RunningProxy['assistant'] {
  const path =
    greeting.method === 'initialize' ? ['params', 'clientInfo'] : ['params', '_meta', clientKey];
  const name = stringAt(greeting, ...path, 'name');
  const version = stringAt(greeting, ...path, 'version');
  if (name === undefined) return undefined;
  return {
    name: name.slice(0, 100),
    ...(version !== undefined && { version: version.slice(0, 50) }),
  };
}
