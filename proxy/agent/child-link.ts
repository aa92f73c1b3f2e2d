import { identify, type LongLine } from '#pipeline/lines';
import {
  answerTo,
  errorAnswer,
  idKey,
  readMessage,
  spanAt,
  textAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Child } from './child.ts';
import { spliced } from './spliced.ts';

/** One request that a child has not answered yet. */
export type OpenRequest = {
  /** What the child says about this request alone: its progress, its subscription. */
  said: (message: Message) => void;
  /** Its one answer, under the asker's own id; `undefined` when it was cancelled. */
  answered: (answer: Message | undefined) => void;
};

export interface ChildLink {
  /** Asks the child. The function that is returned cancels: the child is told, and no answer comes. */
  ask(request: Message, open: OpenRequest): () => void;

  /** Hands on a notification or an answer; the cancellation of a request finds it under its new id. */
  tell(message: Message): void;

  /** How many requests are open, and the one that was opened last. */
  readonly openCount: number;
  readonly latest: OpenRequest | undefined;

  /** Resolves when the child has ended and everybody was told. */
  readonly ended: Promise<void>;
  readonly endedHow: string | undefined;
}

export type ChildLinkOptions = {
  /** What the child says about no request in particular. */
  unasked: (message: Message) => void;
  log: Log;
  maxMessageBytes: number;
};

type Entry = OpenRequest & { id: string; token: string | undefined };

const subscription = 'io.modelcontextprotocol/subscriptionId';
const loggedGarbage = 5;

/**
 * Lets many requests share one child: each goes under an id of ours, and so does its progress token, so that
 * askers who number alike never clash. Whatever else is in a message keeps its bytes.
 */
export function childLink(
  child: Child,
  { unasked, log, maxMessageBytes }: ChildLinkOptions,
): ChildLink {
  const open = new Map<string, Entry>();
  let lastId = 0;
  let garbage = 0;
  let endedHow: string | undefined;

  function ignore(reason: string): void {
    garbage += 1;
    if (garbage <= loggedGarbage) log.warn('a child said what is no message', { reason });
  }

  function settle(ours: string, answer: Message | undefined): void {
    const entry = open.get(ours);
    open.delete(ours);
    entry?.answered(answer);
  }

  function takeAnswer(message: Message): void {
    const ours = idKey(message.id ?? 'null');
    const entry = open.get(ours);
    if (!entry) return ignore('an answer to nothing');
    const span = spanAt(message, 'result', '_meta', subscription);
    settle(ours, answerTo(entry.id, spliced(message, [{ span, text: entry.id }])));
  }

  /** The request that a notification is about, and the notification as its asker knows it. */
  function takeUnasked(message: Message): void {
    const path =
      message.method === 'notifications/progress'
        ? ['params', 'progressToken']
        : ['params', '_meta', subscription];
    const text = message.kind === 'notification' ? textAt(message, ...path) : undefined;
    if (text === undefined || !/^["\d-]/.test(text)) return unasked(message);
    const entry = open.get(idKey(text));
    const theirs = path[1] === 'progressToken' ? entry?.token : entry?.id;
    // About a request that is over, or that asked for none.
    if (!entry || theirs === undefined) return;
    entry.said(spliced(message, [{ span: spanAt(message, ...path), text: theirs }]));
  }

  function takeLine(line: Buffer | LongLine): void {
    if (!Buffer.isBuffer(line)) {
      const ours = longAnswerId(line);
      const entry = ours === undefined ? undefined : open.get(ours);
      const message = `the server's answer is over ${maxMessageBytes} bytes`;
      if (entry) settle(ours ?? '', errorAnswer(entry.id, { code: -32603, message }));
      else ignore(`a line over ${maxMessageBytes} bytes`);
      return;
    }
    try {
      const message = readMessage(line);
      if (message.kind === 'response') takeAnswer(message);
      else takeUnasked(message);
    } catch (error) {
      ignore(String(error));
    }
  }

  async function read(): Promise<void> {
    try {
      for await (const line of child.lines) takeLine(line);
    } catch (error) {
      log.debug('reading a child failed', { reason: String(error) });
    }
    // One that closes its output says no more.
    void child.end();
    endedHow = await child.ended;
    for (const [ours, { id }] of open)
      settle(ours, errorAnswer(id, { code: -32603, message: `the MCP server ${endedHow}` }));
  }

  function cancel(ours: string, params?: Message): void {
    const entry = open.get(ours);
    if (!entry) return;
    const reason = params && textAt(params, 'params', 'reason');
    const more = reason === undefined ? '' : `,"reason":${reason}`;
    write(
      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${ours}${more}}}`,
    );
    settle(ours, undefined);
  }

  function write(line: string | Buffer): void {
    void child.write(typeof line === 'string' ? Buffer.from(line) : line);
  }

  return {
    ask(request, { said, answered }) {
      lastId += 1;
      const ours = String(lastId);
      const token = textAt(request, 'params', '_meta', 'progressToken');
      open.set(ours, { said, answered, id: request.id ?? 'null', token });
      const line = spliced(request, [
        { span: request.members.get('id'), text: ours },
        { span: spanAt(request, 'params', '_meta', 'progressToken'), text: ours },
      ]);
      write(line.bytes);
      return () => cancel(ours);
    },
    tell(message) {
      if (message.method !== 'notifications/cancelled') return write(message.bytes);
      const theirs = textAt(message, 'params', 'requestId');
      if (theirs === undefined || !/^["\d-]/.test(theirs)) return;
      const key = idKey(theirs);
      // The latest of them, should an id have been used twice.
      const found = [...open].findLast(([, { id }]) => idKey(id) === key);
      if (found) cancel(found[0], message);
    },
    get openCount() {
      return open.size;
    },
    get latest() {
      return [...open.values()].at(-1);
    },
    get endedHow() {
      return endedHow;
    },
    ended: read(),
  };
}

/** Whose answer is too long to be read: our ids are numbers, near the front or at the very end. */
function longAnswerId(line: LongLine): string | undefined {
  if (identify(line) !== undefined) return undefined;
  const front = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,/;
  const back = /,\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;
  const { head, tail } = line;
  return (front.exec(head.toString('latin1')) ?? back.exec(tail.toString('latin1')))?.[1];
}
