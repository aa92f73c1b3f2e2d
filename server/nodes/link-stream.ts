import { BriefMap } from 'latchkey-mcp/brief-map';
import assert from 'node:assert/strict';
import {
  creditFrame,
  frameType,
  jsonFrame,
  maxPayloadBytes,
  writeFrame,
} from 'latchkey-mcp/tunnel-frames';
import { IncomingBody } from '#upstreams/tunnel/flow-control';

/** How many bytes of a stream a sender may send before the other side has read them. */
const streamWindowBytes = 64 * 1024;
const maxBufferedBytes = 32 * 1024 * 1024;

/** Why a call to another node has no answer. */
export class NodeLinkError extends Error {
  override readonly name = 'NodeLinkError';
  readonly code:
    /** There is no such node. Nothing was sent. */
    | 'gone'
    /** The node, or NATS, cannot be reached now. Nothing was sent. */
    | 'unreachable'
    /** The link ended after the call was sent, so the call may have taken effect. */
    | 'broken'
    /** The other node ended the call and said why: `reset`. */
    | 'reset';
  readonly reset: StreamReset | undefined;

  constructor(code: NodeLinkError['code'], message: string, reset?: StreamReset) {
    super(message);
    this.code = code;
    this.reset = reset;
  }
}

/** Why the other node ended a stream. */
export interface StreamReset {
  readonly code: string;
  readonly detail: string;
}

/** The bytes that all links of a process hold for their readers. Beyond 32 MiB, the slowest reader loses its stream. */
export class BufferedBytes {
  readonly #streams = new BriefMap<number, LinkStream>();
  #last = 0;
  readonly #most: number;
  #bytes = 0;

  constructor(most = maxBufferedBytes) {
    this.#most = most;
  }

  /** Adds a stream. Returns the number to remove it with. */
  add(stream: LinkStream): number {
    this.#last += 1;
    this.#streams.set(this.#last, stream);
    return this.#last;
  }

  remove(number: number): void {
    this.#streams.delete(number);
  }

  count(bytes: number): void {
    this.#bytes += bytes;
    while (this.#bytes > this.#most) {
      let slowest: LinkStream | undefined;
      for (const stream of this.#streams.values()) {
        if (stream.bufferedBytes > (slowest?.bufferedBytes ?? 0)) slowest = stream;
      }
      if (!slowest) return;
      slowest.evict();
    }
  }
}

export interface LinkStreamOptions {
  readonly id: number;
  /** Whether this side opened it, and so waits for an answer. */
  readonly isOwn: boolean;
  readonly send: (frame: Buffer) => void;
  readonly buffered: BufferedBytes;
  /** Called once, when neither side sends any more. */
  readonly onClosed: () => void;
}

/**
 * One call in a link: a request with a body, and an answer with a head and a body. Both sides send at the speed at which the
 * other reads. A handler returns `false` when the other side broke the protocol.
 */
export class LinkStream {
  readonly #options: LinkStreamOptions;
  /** Its number in `BufferedBytes`. */
  readonly #buffered: number;
  readonly #incoming = new IncomingBody(streamWindowBytes);
  /** The head of the answer, for which only the side that opened the stream waits. */
  readonly #head: PromiseWithResolvers<unknown> | undefined;
  /** Created when `gone` is first read, because for most streams it never is. */
  #gone: AbortController | undefined;
  #goneBecause: Error | undefined;
  #hasHead = false;
  #allowed = streamWindowBytes;
  #hasSentAll = false;
  #hasAll = false;
  #wasRead = false;
  #isClosed = false;
  #failure: Error | undefined;
  /** Present while a caller waits. */
  #changed: PromiseWithResolvers<void> | undefined;

  constructor(options: LinkStreamOptions) {
    this.#options = options;
    this.#buffered = options.buffered.add(this);
    if (!options.isOwn) return;
    this.#head = Promise.withResolvers();
    // Without this, a failure before the caller awaits the head would be an unhandled rejection.
    this.#head.promise.catch(() => undefined);
  }

  /** The head of the answer, as the other node sent it. @throws {NodeLinkError} */
  get head(): Promise<unknown> {
    assert(this.#head, 'an answer comes only to the node that opened the stream');
    return this.#head.promise;
  }

  /** Aborts when the other node gives up the call, or the link ends, before this side is done. */
  get gone(): AbortSignal {
    if (!this.#gone) {
      this.#gone = new AbortController();
      if (this.#goneBecause) this.#gone.abort(this.#goneBecause);
    }
    return this.#gone.signal;
  }

  /** Whether neither side sends any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  get bufferedBytes(): number {
    return this.#incoming.bytes;
  }

  /** @throws {RangeError} when the value is longer than a frame may be */
  sendHead(head: object): void {
    if (!this.#isClosed) this.#options.send(jsonFrame(frameType.head, this.#options.id, head));
  }

  /** Sends bytes of the body at the speed of the other node. Drops them once the stream has ended. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0 && !this.#isClosed && !this.#hasSentAll;) {
      if (this.#allowed === 0) {
        await this.#nextChange();
        continue;
      }
      const length = Math.min(rest.length, this.#allowed, maxPayloadBytes);
      this.#allowed -= length;
      this.#options.send(writeFrame(frameType.data, this.#options.id, rest.subarray(0, length)));
      rest = rest.subarray(length);
    }
  }

  /** Sends a whole body and ends it, if the other node takes all of it now. Otherwise sends nothing and returns `false`. */
  endWith(body: Uint8Array): boolean {
    if (body.length > Math.min(this.#allowed, maxPayloadBytes)) return false;
    if (this.#isClosed || this.#hasSentAll) return true;
    if (body.length > 0) {
      this.#allowed -= body.length;
      this.#options.send(writeFrame(frameType.data, this.#options.id, body));
    }
    this.end();
    return true;
  }

  /** Tells the other node that the body is complete. */
  end(): void {
    if (this.#isClosed || this.#hasSentAll) return;
    this.#hasSentAll = true;
    this.#options.send(writeFrame(frameType.end, this.#options.id));
    if (this.#hasAll) this.#close();
  }

  /** Ends the stream for both sides. */
  reset(code: string, detail = ''): void {
    if (this.#isClosed) return;
    const reason = { code, detail: detail.slice(0, 300) };
    this.#options.send(jsonFrame(frameType.reset, this.#options.id, reason));
    this.fail(new NodeLinkError('broken', `this node ended the call: ${code}`));
  }

  /** Ends the stream for both sides, because the answer is no longer read. */
  cancel(): void {
    this.reset('cancelled');
    this.#drop(new NodeLinkError('broken', 'this node ended the call'));
  }

  /** Ends the stream on this side, because the other one has ended it or cannot be reached. */
  fail(error: Error): void {
    if (this.#isClosed) return;
    if (!this.#hasAll) this.#drop(error);
    this.#head?.reject(error);
    this.#close();
    this.#goneBecause = error;
    this.#gone?.abort(error);
  }

  /** Ends the stream for both sides, and drops what was not read. */
  evict(): void {
    const why = 'its answer was not read, and too much waited beside it';
    this.#drop(new NodeLinkError('broken', why));
    this.reset('broken', why);
  }

  /** The body that the other node sends, if all of it has arrived and none was read; otherwise `undefined`, and `body` has it. */
  takeWhole(): Buffer | undefined {
    if (!this.#hasAll || this.#failure || this.#wasRead) return undefined;
    const whole = this.#incoming.take() ?? Buffer.alloc(0);
    this.#options.buffered.count(-whole.length);
    this.#drop(undefined);
    return whole;
  }

  /** The body that the other node sends. Leaving the loop early ends the stream. @throws {NodeLinkError} */
  async *body(): AsyncGenerator<Uint8Array> {
    const { buffered, send, id } = this.#options;
    this.#wasRead = true;
    try {
      for (;;) {
        const piece = this.#incoming.take();
        if (piece) {
          buffered.count(-piece.length);
          yield piece;
          const credit = this.#isClosed || this.#hasAll ? 0 : this.#incoming.credit();
          if (credit > 0) send(creditFrame(id, credit));
        } else if (this.#failure) throw this.#failure;
        else if (this.#hasAll) return;
        else await this.#nextChange();
      }
    } finally {
      if (!this.#hasAll) this.reset('cancelled');
      this.#drop(undefined);
    }
  }

  onHead(head: unknown): boolean {
    if (!this.#options.isOwn || this.#hasHead) return false;
    this.#hasHead = true;
    this.#head?.resolve(head);
    return true;
  }

  onData(piece: Buffer): boolean {
    if (this.#hasAll || (this.#options.isOwn && !this.#hasHead)) return false;
    if (!this.#incoming.push(piece)) return false;
    this.#options.buffered.count(piece.length);
    this.#wake();
    return true;
  }

  onEnd(): boolean {
    if (this.#hasAll || (this.#options.isOwn && !this.#hasHead)) return false;
    this.#hasAll = true;
    this.#wake();
    if (this.#hasSentAll) this.#close();
    // The answer is complete, so the rest of the request is not needed.
    else if (this.#options.isOwn) this.reset('cancelled');
    return true;
  }

  onCredit(bytes: number | undefined): boolean {
    if (bytes === undefined || this.#allowed + bytes > streamWindowBytes) return false;
    this.#allowed += bytes;
    this.#wake();
    return true;
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.onClosed();
    this.#wake();
    // The answer to the request is complete, so the rest of the request is not needed.
    if (!this.#options.isOwn) this.#drop(undefined);
    // The reader may still take what has arrived. Those bytes count until then.
    if (this.#incoming.bytes === 0) this.#options.buffered.remove(this.#buffered);
  }

  #drop(failure: Error | undefined): void {
    this.#failure ??= failure;
    const dropped = this.#incoming.take();
    if (dropped) this.#options.buffered.count(-dropped.length);
    if (this.#isClosed || failure) this.#options.buffered.remove(this.#buffered);
  }

  #nextChange(): Promise<void> {
    this.#changed ??= Promise.withResolvers();
    return this.#changed.promise;
  }

  #wake(): void {
    this.#changed?.resolve();
    this.#changed = undefined;
  }
}
