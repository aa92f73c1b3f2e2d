import { notificationScopes, type Scope } from '#model/scopes';
import { type Edit, memberEdits, membersIn, replaced, stringAt } from 'latchkey-mcp/json-edit';
import {
  type Envelope,
  type Message,
  type Scan,
  isError,
  scanMessage,
  withId,
} from 'latchkey-mcp/message';
import { type SseEvent, messageEvent } from 'latchkey-mcp/sse';
import { GatewayRefusal } from './gateway-refusal.ts';

const longBytes = 1024 * 1024;
/** One of these occurs in every message that is an error. */
export const errorMarks = ['"isError"', '"error"'];
/** One of these occurs in every message that names a task or asks for input. */
export const ownedMarks = ['"taskId"', '"requestState"', '"input_required"'];
const allMarks = [...errorMarks, ...ownedMarks];

/** One message of an answer on its way to the caller. It is scanned at most once, when a filter first needs the scan. */
export class AnswerMessage {
  readonly bytes: Buffer;
  /** The event that it came in; absent for a JSON answer. */
  readonly event: SseEvent | undefined;
  readonly #isChanged: boolean;
  #scan: Scan | undefined;
  #text: string | undefined;
  #isPlain: boolean | undefined;

  /** A message with these bytes. Reuses the scan of `message`, unless that has another body. */
  static of(bytes: Uint8Array, message: Message | AnswerMessage | undefined): AnswerMessage {
    if (message instanceof AnswerMessage)
      return message.bytes === bytes && !message.event ? message : new AnswerMessage(bytes);
    const made = new AnswerMessage(bytes);
    if (message?.body === bytes) made.#scan = { outcome: 'message', envelope: message.envelope };
    return made;
  }

  constructor(bytes: Uint8Array, event?: SseEvent, isChanged = false) {
    this.bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.event = event;
    this.#isChanged = isChanged;
  }

  get scan(): Scan {
    this.#scan ??= scanMessage(this.bytes);
    return this.#scan;
  }

  /** The bytes as text, with one character per byte. */
  get text(): string {
    return (this.#text ??= this.bytes.toString('latin1'));
  }

  /** Whether `mark`, which is ASCII, occurs anywhere in it. */
  #holds(mark: string): boolean {
    // A string is searched faster than a buffer, but takes as much memory again.
    return (this.bytes.length > longBytes ? this.bytes : this.text).includes(mark);
  }

  /** Whether none of these marks, which are among `allMarks`, occurs in it. Most messages have none at all, and are searched once. */
  lacks(marks: readonly string[]): boolean {
    this.#isPlain ??= !allMarks.some((mark) => this.#holds(mark));
    return this.#isPlain || !marks.some((mark) => this.#holds(mark));
  }

  /** Whether it is an error and nothing else, including one that the scan refuses because it has no id. */
  get isError(): boolean {
    return isError(this.bytes);
  }

  /** The same message with other bytes. */
  changed(bytes: Buffer): AnswerMessage {
    return bytes === this.bytes ? this : new AnswerMessage(bytes, this.event, true);
  }

  /** The message as an event: the event that it came in, unless the message was changed. */
  get eventBytes(): Buffer {
    if (this.event && !this.#isChanged) return this.event.raw;
    return messageEvent(this.bytes, this.event);
  }
}

/**
 * Looks at one message of an answer: passes it on, as it is or changed, or drops it with `undefined`. Filters never wait.
 *
 * @throws {GatewayRefusal} when the whole answer must not go on
 */
export type Filter = (message: AnswerMessage) => AnswerMessage | undefined;

/** Runs the filters one after the other. */
export function filtered(
  message: AnswerMessage,
  filters: readonly Filter[],
): AnswerMessage | undefined {
  let current: AnswerMessage | undefined = message;
  for (const filter of filters) {
    current = filter(current);
    if (!current) return undefined;
  }
  return current;
}

/**
 * In event streams, drops notifications that the caller's `scopes` do not cover, and anything that a parser could take
 * for one. `undefined` if the scopes cover all notifications.
 */
export function allowedNotifications(scopes: readonly Scope[]): Filter | undefined {
  // The usual case.
  if (notificationScopes.every(([, scope]) => scopes.includes(scope))) return undefined;
  const missing = notificationScopes.filter(([, scope]) => !scopes.includes(scope));
  return (message) => {
    if (!message.event) return message;
    // Only an escape could hide these words from a search of the bytes.
    if (!message.bytes.includes('notifications/') && !message.bytes.includes('\\')) return message;
    const { scan } = message;
    if (scan.outcome === 'refused') return undefined;
    const { method = '' } = scan.envelope;
    return missing.some(([prefix]) => method.startsWith(prefix)) ? undefined : message;
  };
}

/** The title and instructions that the operator set for a server, for clients that connect. */
export interface Presentation {
  readonly title?: string | undefined;
  readonly instructions?: string | undefined;
}

/** The requests whose answers introduce a server. */
export const presentingMethods: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

const infoKey = 'io.modelcontextprotocol/serverInfo';

/**
 * Replaces the upstream's title with the operator's, and puts the operator's instructions before the upstream's. All
 * other bytes stay the same. A message that cannot be read is refused, because a client could find the upstream's
 * unchanged texts in it.
 *
 * MCP 2025-11-25 lifecycle, "Initialization"; MCP 2026-07-28 `server/discover`
 */
export function presented({ title, instructions }: Presentation): Filter {
  return (message) => {
    const { bytes } = message;
    if (bytes.length === 0 || message.isError) return message;
    const { scan } = message;
    if (scan.outcome === 'refused') throw unreadable(scan.reason);
    const result = resultOf(bytes, scan.envelope);
    if (!result) return message;
    const members = membersIn(bytes, result);
    const meta = members.get('_meta');
    const infos = [members.get('serverInfo'), meta && membersIn(bytes, meta).get(infoKey)];
    const titled = title ? { title: JSON.stringify(title) } : {};
    const own = stringAt(bytes, members.get('instructions'));
    const both = JSON.stringify([instructions, own].filter(Boolean).join('\n\n'));
    const edits: Edit[] = [
      ...infos.flatMap((info) => memberEdits(bytes, info, titled)),
      ...(instructions ? memberEdits(bytes, result, { instructions: both }) : []),
    ];
    return edits.length > 0 ? message.changed(replaced(bytes, edits)) : message;
  };
}

function resultOf(bytes: Buffer, { kind, root }: Envelope) {
  return kind === 'response' ? membersIn(bytes, root).get('result') : undefined;
}

/**
 * Stops results for other requests. Clients match responses by id alone, so such a result would reach the other
 * request without having passed its filters. In a stream it is dropped; a JSON answer is refused. Errors pass,
 * because no filter looks at them.
 *
 * @throws {GatewayRefusal} `upstream_unreadable`, also for an answer that could be read in more than one way
 */
export function ownResponse(id: string | undefined): Filter {
  return (message) => {
    const { scan } = message;
    if (scan.outcome === 'refused') {
      if (message.isError) return message;
      throw unreadable(scan.reason);
    }
    const { kind, id: answered } = scan.envelope;
    if (kind !== 'response' || isSameId(answered, id) || message.isError) return message;
    if (message.event) return undefined;
    throw answeredAnother();
  };
}

/**
 * Whether two ids are the same. Some upstreams return an id in another form, mostly a number as a string, and clients
 * accept that.
 */
export function isSameId(one: string | undefined, other: string | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  return one === other || plainId(one) === plainId(other);
}

function plainId(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/** Restores the caller's id (JSON text), because its request was sent with another one. */
export function underId(id: string): Filter {
  return (message) => {
    const { scan } = message;
    if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') {
      throw new GatewayRefusal('upstream_unreadable', {
        detail: 'its response is not a JSON-RPC response',
      });
    }
    return message.changed(withId({ body: message.bytes, envelope: scan.envelope }, id).body);
  };
}

/** Drops whatever could be read as a response: nothing that an upstream sends unasked answers a request. */
export function noResponses(message: AnswerMessage): AnswerMessage | undefined {
  const { scan } = message;
  return scan.outcome === 'refused' || scan.envelope.kind === 'response' ? undefined : message;
}

export function unreadable(reason: string): GatewayRefusal {
  return new GatewayRefusal('upstream_unreadable', {
    detail: `its response could not be read: ${reason}`,
  });
}

export function answeredAnother(): GatewayRefusal {
  const detail = 'its response belongs to another request';
  return new GatewayRefusal('upstream_unreadable', { detail });
}
