import { abortSignal } from '#server/model/ending';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#server/gateway/upstream';

/** An upstream's answer in short: 200, JSON and an empty body unless told otherwise. */
export interface ScriptedAnswer extends Partial<Omit<UpstreamAnswer, 'body'>> {
  /** The body: whole, in chunks, or as a stream. */
  readonly text?: string | readonly string[] | UpstreamAnswer['body'];
}

export interface SentRequest {
  readonly method: UpstreamRequest['method'];
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly signal: AbortSignal;
}

export interface FakeUpstream extends Upstream {
  readonly sent: SentRequest[];
}

/** An MCP server that answers by a script, and remembers what it was sent. */
export function fakeUpstream(
  script: (request: SentRequest) => ScriptedAnswer | Promise<ScriptedAnswer>,
): FakeUpstream {
  const sent: SentRequest[] = [];
  return {
    sent,
    async send({ method, headers, body, signal }) {
      const text = Buffer.from(body ?? []).toString();
      const request = { method, headers, signal: abortSignal(signal), text };
      sent.push(request);
      return upstreamAnswer(await script(request));
    },
  };
}

export function upstreamAnswer({ text = '', ...answer }: ScriptedAnswer): UpstreamAnswer {
  return {
    status: 200,
    mediaType: 'application/json',
    sessionId: undefined,
    retryAfterSeconds: undefined,
    ...answer,
    body: typeof text === 'string' ? chunks([text]) : isChunked(text) ? chunks(text) : text,
  };
}

function isChunked(text: object): text is readonly string[] {
  return Array.isArray(text);
}

async function* chunks(parts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

/** The chunks of a body; a body that is in memory is one chunk. */
export async function* chunksOf(body: UpstreamAnswer['body']): AsyncGenerator<Uint8Array> {
  if (body instanceof Uint8Array) yield body;
  else yield* body;
}

/** A body that breaks off, as on a connection that is reset. */
export async function* brokenOff(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
  throw Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
}

/** A body of `text/event-stream`: each message in an event of its own. */
export function eventStream(...messages: string[]): string {
  return messages.map((message) => `data: ${message}\n\n`).join('');
}
