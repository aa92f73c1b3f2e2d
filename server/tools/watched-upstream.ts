import { eventsIn, wholeBody } from '#gateway/event-stream';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { messageWithoutTools } from '#gateway/hidden-tools';
import { isError, scanMessage } from '#gateway/json-scan';
import { messageEvent } from '#gateway/sse-event';
import { SseEventTooLarge } from '#gateway/sse-events';
import { unreadableTools } from '#gateway/tool-list';
import type { Upstream, UpstreamAnswer } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import { listedTools } from './listed-tools.ts';
import type { ToolWatch } from './tool-watch.ts';

/** Longer lists are none that anybody reads. */
const mostBytes = 4 * 1024 * 1024;

export interface WatchedPorts {
  readonly watch: Pick<ToolWatch, 'look'>;
  /** What was listed could not be held against what was accepted; the call goes on. */
  readonly failed: (error: unknown) => void;
}

/**
 * The same upstream, whose lists of tools are looked at before anybody gets them. What cannot be read in exactly one way
 * is refused: a client might find tools in it that nobody looked at. Where changed tools are only flagged a list goes on as
 * it is; where they are withheld it goes on without them, and not at all when that could not be written down.
 */
export function watchedUpstream(
  upstream: Upstream,
  server: ServerRecord,
  { watch, failed }: WatchedPorts,
): Upstream {
  return {
    async send(request) {
      const answer = await upstream.send(request);
      const { method, body } = request;
      return method === 'POST' && body && asksForTools(body) ? watched(answer) : answer;
    },
  };

  async function watched(answer: UpstreamAnswer): Promise<UpstreamAnswer> {
    const { status, mediaType, body } = answer;
    // An answer that comes later, by another stream, is one that nobody would look at.
    if (status === 202 || status === 204) throw unreadableTools('it does not come with the answer');
    if (status === 200 && mediaType === 'text/event-stream')
      return { ...answer, body: events(body) };
    const isRefusal = status === 400 || status === 404;
    if (mediaType !== 'application/json' || !(isRefusal || status === 200)) return answer;
    const message = await whole(body);
    if (!isRefusal) return { ...answer, body: await list(message) };
    return isError(message)
      ? { ...answer, body: message }
      : { ...answer, mediaType: '', body: new Uint8Array() };
  }

  /** Messages that were read, each in an event made anew: some readers find another one in what is a comment to others. */
  async function* events(body: UpstreamAnswer['body']): AsyncGenerator<Uint8Array> {
    let isAnswered = false;
    for await (const { data } of withinLimit(eventsIn(body, mostBytes))) {
      if (isAnswered || data.length === 0) continue;
      const message = Buffer.from(data);
      const scan = scanMessage(message);
      isAnswered = scan.outcome === 'refused' || scan.envelope.kind === 'response';
      yield messageEvent(isAnswered ? await list(message) : message);
    }
    // Whoever asked must not go on with it elsewhere, where nobody looks.
    if (!isAnswered) {
      throw new GatewayRefusal('upstream_failed', { detail: 'its answer ended before the result' });
    }
  }

  async function list(message: Buffer): Promise<Buffer> {
    const tools = listedTools(message);
    if (!tools) return message;
    const look = watch.look(server, tools);
    if (server.changedTools === 'flag') {
      look.catch(failed);
      return message;
    }
    const withheld = await look.catch((cause: unknown) => {
      throw new GatewayRefusal('unavailable', { cause });
    });
    return messageWithoutTools(message, withheld);
  }
}

async function whole(body: UpstreamAnswer['body']): Promise<Buffer> {
  try {
    return await wholeBody(body, mostBytes);
  } catch (error) {
    throw limitIn(error);
  }
}

async function* withinLimit<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    throw limitIn(error);
  }
}

function limitIn(error: unknown): unknown {
  const isTooLarge = error instanceof GatewayRefusal && error.cause instanceof SseEventTooLarge;
  return isTooLarge ? unreadableTools(`it is larger than ${mostBytes} bytes`) : error;
}

/** A longer body with an escape in it is no request for tools that any client would make like that. */
const shortBytes = 16 * 1024;

function asksForTools(body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const may = bytes.includes('tools/list') || (bytes.length < shortBytes && bytes.includes('\\'));
  if (!may) return false;
  const scan = scanMessage(bytes);
  return scan.outcome === 'message' && scan.envelope.method === 'tools/list';
}
