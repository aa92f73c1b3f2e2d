import { modernHeaders } from '#mcp/headers';
import type { Clock } from '#server/model/clock';
import type { Scope } from '#server/model/scopes';
import { EraAdapters } from '#server/gateway/era-adapters';
import type { ProvedCredential } from '#server/gateway/request';
import type { Upstream, UpstreamAnswer } from '#server/gateway/upstream';
import { chunksOf } from './fake-upstream.ts';
import { modern } from './mcp-call.ts';
import { scannedMessage } from './scanned-message.ts';
import { someAdmission, someTarget } from './some-admission.ts';
import type { Target } from '#server/model/endpoints';
import { stillClock } from './still-clock.ts';

export interface EraCallerOptions {
  readonly clock?: Clock;
  readonly eras?: EraAdapters;
  readonly owner?: string;
  readonly scopes?: readonly Scope[];
  readonly target?: Partial<Target>;
  readonly proved?: ProvedCredential;
}

/** Sends messages to an upstream as callers of either era do, translated where that is needed. */
export function eraCaller(upstream: Upstream, options: EraCallerOptions = {}) {
  const { clock = stillClock(), owner = 'key:a srv' } = options;
  const eras = options.eras ?? new EraAdapters(clock);
  const target = someTarget({
    upstream: { kind: 'http', url: 'http://127.0.0.1:1' },
    ...options.target,
  });
  const { scopes, proved } = options;
  const admission = someAdmission({ ...(scopes && { scopes }), ...(proved && { proved }) });
  const call = { upstream, owner, admission, target };
  const post = async (
    era: 'legacy' | 'modern',
    text: string,
    { headers = {}, signal = new AbortController().signal }: Sending = {},
  ) => eras.send(era, { method: 'POST', headers, body: Buffer.from(text), signal }, call);
  return {
    eras,
    send: post,
    /** A request of the modern era; `meta` adds members to its `_meta`. */
    async modern(method: string, params: Params = {}, { meta = {}, signal }: ModernSending = {}) {
      const asked: Asked = JSON.parse(modern(method, params).body);
      Object.assign(asked.params._meta, meta);
      const text = JSON.stringify(asked);
      const headers = modernHeaders(scannedMessage(text).envelope);
      return post('modern', text, { headers, ...(signal && { signal }) });
    },
    legacy: async (message: object, sending?: Sending) =>
      post('legacy', JSON.stringify({ jsonrpc: '2.0', ...message }), sending),
    within: (method: 'GET' | 'DELETE', { headers = {}, signal }: Sending) =>
      eras.send(
        'legacy',
        { method, headers, signal: signal ?? new AbortController().signal },
        call,
      ),
  };
}

type Params = Record<string, unknown>;
interface Asked {
  readonly params: { readonly _meta: object };
}
interface Sending {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}
interface ModernSending {
  readonly meta?: object;
  readonly signal?: AbortSignal;
}

/** The contents of a message in an answer. */
export interface SaidMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Params;
  readonly result?: Params & { readonly requestState?: string };
  readonly error?: { readonly code: number; readonly message: string };
}

/** The messages of an answer as they come, parsed; comments are left out. */
export async function* messagesOf({
  mediaType,
  body,
}: UpstreamAnswer): AsyncGenerator<SaidMessage> {
  let text = '';
  for await (const chunk of chunksOf(body)) {
    text += Buffer.from(chunk).toString();
    if (mediaType !== 'text/event-stream') continue;
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (data !== undefined) yield parsedMessage(data);
    }
  }
  if (mediaType !== 'text/event-stream' && text !== '') yield parsedMessage(text);
}

export async function allOf(answer: UpstreamAnswer): Promise<SaidMessage[]> {
  const all: SaidMessage[] = [];
  for await (const message of messagesOf(answer)) all.push(message);
  return all;
}

export async function lastOf(answer: UpstreamAnswer): Promise<SaidMessage> {
  return (await allOf(answer)).at(-1) ?? {};
}

export function parsedMessage(text: string): SaidMessage {
  const message: SaidMessage = JSON.parse(text);
  return message;
}
