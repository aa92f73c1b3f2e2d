import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { listedTools, withoutTools, admittedTools, type ToolRules } from '#pipeline/tool-lists';
import {
  type Message,
  errorAnswer,
  MessageError,
  readMessage,
  stringAt,
} from 'latchkey-mcp/raw-message';
import { messageEvent, sseEvents, SseEventTooLarge } from 'latchkey-mcp/sse';

/** A request to a local MCP server, with the methods and headers of MCP's Streamable HTTP. */
export type LocalRequest = {
  method: 'POST' | 'GET' | 'DELETE';
  /** Their names are in lower case. They never contain a credential. */
  headers: Readonly<Record<string, string>>;
  /** The caller's own key at the server, as a header. */
  key?: { readonly name: string; readonly value: string } | undefined;
  /** For a POST: one JSON-RPC message. */
  body?: Buffer;
  /** Identifies the caller. Two callers never share a session or a child. */
  caller: string;
  /** When aborted, ends the request and its answer, and cancels the request at the server. */
  signal: AbortSignal;
};

export type LocalAnswer = {
  status: number;
  /** For example `content-type`, `mcp-session-id` and `retry-after`. */
  headers: Readonly<Record<string, string>>;
  /** A buffer if the whole answer had arrived; otherwise a stream, read no faster than it is consumed. */
  body: Buffer | AsyncIterable<Buffer>;
};

/** The chunks of a body. An empty body has none. */
export async function* chunksOf(body: LocalAnswer['body']): AsyncGenerator<Buffer> {
  if (!(body instanceof Uint8Array)) yield* body;
  else if (body.length > 0) yield body;
}

/** An MCP server on this host or in its network, presented as Streamable HTTP whatever its transport is. */
export interface LocalServer {
  /** @throws {LocalServerError} if there is no answer; reading the body of an answer may throw it, too */
  send(request: LocalRequest): Promise<LocalAnswer>;

  /** Ends the sessions and children of a caller that lost access. Other callers keep theirs. */
  leave(caller: string): Promise<void>;

  /** Forgets all sessions and ends their children; later requests start new ones. */
  reset(): Promise<void>;

  /** Ends all children and accepts no more requests. Resolves when no child is left. */
  close(): Promise<void>;
}

/**
 * `unreachable`: no connection, or the command does not start. `unknown_host`: the host name was not found. `tls`: one side
 * does not trust the other's certificate. `broken`: the response ended early or is not MCP.
 * `too_large`: a message over the limit. `busy`: too many sessions. `aborted`: the caller disconnected.
 * Messages contain no secrets.
 */
export class LocalServerError extends Error {
  override readonly name = 'LocalServerError';
  readonly code:
    | 'unreachable'
    | 'unknown_host'
    | 'tls'
    | 'broken'
    | 'too_large'
    | 'busy'
    | 'aborted';

  constructor(code: LocalServerError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** An answer with a JSON body, or without a body. */
export function plainAnswer(
  status: number,
  json?: Buffer | string,
  headers: Readonly<Record<string, string>> = {},
): LocalAnswer {
  if (json === undefined) return { status, headers, body: Buffer.alloc(0) };
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof json === 'string' ? Buffer.from(json) : json,
  };
}

/** The memory that all streams of a child hold until callers have read the messages. */
export interface Backlog {
  bytes: number;
}

/** A queued message, linked to the next one. */
interface Waiting {
  readonly bytes: Buffer;
  readonly request: Message | undefined;
  next?: Waiting;
}

/** The estimated memory for a queued message in addition to its bytes. */
const messageBytes = 300;
/** How much may be queued for a listener before notifications are dropped. */
const backlogBytes = 1024 * 1024;
/** How much a backlog may hold, including a message that is being added. A single message may be larger. */
const maxBacklogBytes = 64 * 1024 * 1024;

/**
 * `unread` is called with each request that is still queued when the stream closes, because its sender waits for a response.
 *
 * HTML Living Standard §9.2.6
 */
export function answerStream(
  backlog: Backlog = { bytes: 0 },
  unread: (request: Message) => void = () => undefined,
) {
  // A linked list, because removing the first element of a long array moves all others.
  let first: Waiting | undefined;
  let last: Waiting | undefined;
  let waitingBytes = 0;
  let hasEnded = false;
  let failure: LocalServerError | undefined;
  const begun = Promise.withResolvers<void>();
  let change = Promise.withResolvers<void>();
  const wake = () => {
    begun.resolve();
    change.resolve();
  };
  const close = () => {
    hasEnded = true;
    backlog.bytes -= waitingBytes;
    waitingBytes = 0;
    let left = first;
    first = last = undefined;
    wake();
    for (; left; left = left.next) if (left.request) unread(left.request);
  };
  return {
    /** Resolves at the first message or at the end. */
    begun: begun.promise,
    /**
     * Queues a message without waiting. Drops notifications while the listener is far behind, and fails if anything else does not
     * fit into the backlog. `false` if the stream has ended, or fails because of this message.
     */
    push(message: Message): boolean {
      const { bytes, kind } = message;
      const cost = bytes.length + messageBytes;
      const isFull = backlog.bytes > 0 && backlog.bytes + cost > maxBacklogBytes;
      if (hasEnded) return false;
      if (kind === 'notification' && (isFull || waitingBytes > backlogBytes)) return true;
      if (isFull) {
        const limit = `${maxBacklogBytes} bytes`;
        failure = new LocalServerError('busy', `the caller does not read: ${limit} wait for it`);
        close();
        return false;
      }
      const added = { bytes, request: kind === 'request' ? message : undefined };
      if (last) last.next = added;
      else first = added;
      last = added;
      waitingBytes += cost;
      backlog.bytes += cost;
      wake();
      return true;
    },
    /** Ends the stream after the queued messages. */
    end(): void {
      hasEnded = true;
      wake();
    },
    /** Fails the stream after the queued messages. */
    fail(error: LocalServerError): void {
      failure ??= error;
      hasEnded = true;
      wake();
    },
    /** Drops the queued messages, because the reader has disconnected. */
    close,
    /** Can be read only once. */
    async *events(): AsyncGenerator<Buffer> {
      try {
        for (;;) {
          if (first) {
            const { bytes, next } = first;
            first = next;
            if (!next) last = undefined;
            waitingBytes -= bytes.length + messageBytes;
            backlog.bytes -= bytes.length + messageBytes;
            yield messageEvent(bytes);
          } else if (failure) throw failure;
          else if (hasEnded) return;
          else {
            change = Promise.withResolvers<void>();
            await change.promise;
          }
        }
      } finally {
        close();
      }
    },
  };
}

/** The messages of a server for one listener, as the events of a `text/event-stream`. */
export type AnswerStream = ReturnType<typeof answerStream>;

/**
 * `server` with only the tools that `rules` admit. Other tools are neither listed nor callable, and calls of them
 * never reach the server. The message in the body decides, never a header.
 */
export function narrowedServer(
  server: LocalServer,
  rules: ToolRules,
  maxMessageBytes: number,
): LocalServer {
  if (rules.allow === undefined && rules.deny === undefined) return server;
  const admits = admittedTools(rules);
  return {
    async send(request) {
      let message: Message | undefined;
      try {
        if (request.method === 'POST') message = readMessage(request.body ?? Buffer.alloc(0));
        if (message?.method === 'tools/call') {
          const name = stringAt(message, 'params', 'name') ?? '';
          const error = { code: -32602, message: `Unknown tool: ${name}` };
          if (!admits(name))
            return plainAnswer(200, errorAnswer(message.id ?? 'null', error).bytes);
        }
      } catch (error) {
        const problem =
          error instanceof MessageError ? error : { code: -32600, message: 'not a request' };
        return plainAnswer(400, errorAnswer('null', problem).bytes);
      }
      const answer = await server.send(request);
      const narrowed = (other: Message) => withAdmittedTools(other, admits);
      const type = answer.headers['content-type'] ?? '';
      if (/^text\/event-stream\b/i.test(type))
        return { ...answer, body: changedEvents(answer, narrowed, maxMessageBytes) };
      return message?.method === 'tools/list' && answer.status === 200
        ? changedJson(answer, narrowed, maxMessageBytes)
        : answer;
    },
    leave: async (caller) => server.leave(caller),
    reset: async () => server.reset(),
    close: async () => server.close(),
  };
}

function withAdmittedTools(message: Message, admits: (name: string) => boolean): Message {
  const tools = message.kind === 'response' ? listedTools(message) : undefined;
  return tools ? withoutTools(message, tools, ({ name }) => admits(name)) : message;
}

/** The events of an answer with changed messages. The events keep their names and ids. */
async function* changedEvents(
  { body }: LocalAnswer,
  change: (message: Message) => Message,
  maxBytes: number,
): AsyncGenerator<Buffer> {
  try {
    for await (const event of sseEvents(chunksOf(body), { maxBytes, printableIds: true })) {
      const { data, isComment } = event;
      if (isComment) continue;
      yield messageEvent(data.length > 0 ? change(readMessage(data)).bytes : data, event);
    }
  } catch (error) {
    if (error instanceof SseEventTooLarge)
      throw new LocalServerError('too_large', `a message is larger than ${error.limit}`);
    throw brokenIfInvalid(error, 'an event is not a JSON-RPC message');
  }
}

async function changedJson(
  { status, headers, body }: LocalAnswer,
  change: (message: Message) => Message,
  maxBytes: number,
): Promise<LocalAnswer> {
  const gathered = new GatheredBytes();
  for await (const chunk of chunksOf(body)) {
    gathered.add(chunk);
    if (gathered.length > maxBytes)
      throw new LocalServerError('too_large', `a message is larger than ${maxBytes} bytes`);
  }
  try {
    return plainAnswer(status, change(readMessage(gathered.whole())).bytes, headers);
  } catch (error) {
    throw brokenIfInvalid(error, 'the answer is not a JSON-RPC message');
  }
}

/** Converts a `MessageError` to a `LocalServerError`, and returns any other error unchanged. */
function brokenIfInvalid(cause: unknown, problem: string): unknown {
  return cause instanceof MessageError ? new LocalServerError('broken', problem, { cause }) : cause;
}
