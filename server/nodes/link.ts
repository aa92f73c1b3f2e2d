import { BriefMap } from 'latchkey-mcp/brief-map';
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import {
  frameType,
  jsonFrame,
  readCredit,
  readFrame,
  readResetText,
  withFrames,
  type Frame,
} from 'latchkey-mcp/tunnel-frames';
import { type BufferedBytes, LinkStream, NodeLinkError } from './link-stream.ts';
import { memberOf, parseJson } from 'latchkey-mcp/json-value';

/** The longest NATS message that a link sends. */
export const maxMessageBytes = 512 * 1024;
const sequenceBytes = 8;
const tagBytes = 16;
const lengthBytes = 4;
const maxBatchBytes = maxMessageBytes - sequenceBytes - tagBytes;
const heartbeatMs = 500;
const silenceMs = 2500;
const maxStreams = 20_000;

export interface LinkOptions {
  /** 32 bytes, derived from random bits of both nodes, so that messages of one link are invalid in another. */
  readonly key: Buffer;
  /** Whether this side opened the link. Only that side opens streams. */
  readonly isOpener: boolean;
  /** Sends a message. Throws when that cannot be done. */
  readonly publish: (message: Uint8Array) => void;
  /** Answers a stream that the other node opened. */
  readonly accept: (opening: unknown, stream: LinkStream) => void;
  readonly buffered: BufferedBytes;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /** Called once. */
  readonly onEnd: (reason: string) => void;
}

/**
 * An encrypted connection between two nodes, over a bus that could read, drop, change or repeat messages. A message is a
 * sequence number followed by sealed frames of the agent tunnel, each preceded by its length. The link ignores a message that the
 * other node did not send in this link, or that it has read before. The link ends if a message is missing, which the next one
 * reveals, or after 2.5 seconds of silence. A link that has ended is never reopened: its calls fail, and this class sends none again. A
 * call that was not sent yet fails as `unreachable`. A node that closes a link says which call it read last, so that the other node can tell
 * a call that never began from one that broke off.
 */
export class Link {
  readonly #options: LinkOptions;
  readonly #outgoing: DirectionSeal;
  readonly #incoming: DirectionSeal;
  readonly #streams = new BriefMap<number, LinkStream>();
  #batch: Buffer[] = [];
  #batchBytes = 0;
  /** The first of this side's streams whose opening is still in the batch. */
  #firstUnsent: number | undefined;
  /** The streams that the message in progress has opened. */
  #opened: { readonly opening: unknown; readonly stream: LinkStream }[] = [];
  #lastId = 0;
  #isEnded = false;
  #isClosedByOther = false;
  #lastReceivedAtMs: number;
  #lastSentAtMs: number;

  constructor(options: LinkOptions) {
    const { key, isOpener, nowMs } = options;
    this.#options = options;
    const there = new DirectionSeal(key, 'there');
    const back = new DirectionSeal(key, 'back');
    this.#outgoing = isOpener ? there : back;
    this.#incoming = isOpener ? back : there;
    this.#lastReceivedAtMs = nowMs();
    this.#lastSentAtMs = -Infinity;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** When the last message of the other node arrived. */
  get lastReceivedAtMs(): number {
    return this.#lastReceivedAtMs;
  }

  get streams(): number {
    return this.#streams.size;
  }

  /** @throws {NodeLinkError} `gone`, `unreachable` @throws {RangeError} when the opening is longer than a frame may be */
  open(opening: object): LinkStream {
    if (this.#isClosedByOther) throw new NodeLinkError('gone', 'the other node stops');
    if (this.#isEnded) throw new NodeLinkError('unreachable', 'the link has ended');
    if (this.#streams.size >= maxStreams) throw new NodeLinkError('unreachable', 'too many calls');
    const id = this.#lastId + 1;
    const frame = jsonFrame(frameType.open, id, opening);
    this.#lastId = id;
    const stream = this.#add(id, true);
    this.#send(frame);
    this.#firstUnsent ??= id;
    return stream;
  }

  receive(message: Uint8Array): void {
    if (this.#isEnded) return;
    const plain = this.#incoming.open(message);
    if (plain === 'not read') return;
    if (plain === 'lost') return this.end('a message was lost');
    this.#lastReceivedAtMs = this.#options.nowMs();
    this.#read(plain);
    // Accepted only now, because the body of most calls is in the same message, so that nothing has to wait for it.
    const opened = this.#opened;
    if (opened.length > 0) this.#opened = [];
    for (const { opening, stream } of opened) {
      // The message may also have cancelled the stream.
      if (!stream.isClosed) this.#options.accept(opening, stream);
    }
  }

  /** Sends a heartbeat when one is due, and ends the link when the other node has been silent for too long. */
  checkTimeouts(nowMs: number): void {
    if (this.#isEnded) return;
    if (nowMs - this.#lastReceivedAtMs > silenceMs) return this.end('the other node fell silent');
    if (nowMs - this.#lastSentAtMs >= heartbeatMs) this.#flush(true);
  }

  /** Restarts the silence timer: this process was suspended, so the silence says nothing about the other node. */
  forgiveSilence(nowMs: number): void {
    this.#lastReceivedAtMs = nowMs;
  }

  /** Ends the link on both sides; calls in progress fail. */
  close(): void {
    this.#send(jsonFrame(frameType.drain, 0, { last: this.#lastId }));
    this.#flush();
    this.end('the node stops');
  }

  /** Ends the link on this side; calls in progress fail. The other node notices the silence. */
  end(reason: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#batch = [];
    const { isOpener } = this.#options;
    const firstUnsent = (isOpener ? this.#firstUnsent : undefined) ?? Infinity;
    for (const [id, stream] of this.#streams) {
      const code = id < firstUnsent ? 'broken' : 'unreachable';
      stream.fail(new NodeLinkError(code, `the link between the nodes ended: ${reason}`));
    }
    this.#options.onEnd(reason);
  }

  #read(plain: Buffer): void {
    for (let at = 0; at < plain.length && !this.#isEnded;) {
      if (plain.length - at < lengthBytes) return this.end('a message is cut off');
      const end = at + lengthBytes + plain.readUInt32BE(at);
      const frame =
        end <= plain.length ? readFrame(plain.subarray(at + lengthBytes, end)) : undefined;
      if (!frame || !this.#handle(frame)) return this.end('a frame breaks the protocol');
      at = end;
    }
  }

  #add(id: number, isOwn: boolean): LinkStream {
    const stream = new LinkStream({
      id,
      isOwn,
      send: (frame) => this.#send(frame),
      buffered: this.#options.buffered,
      onClosed: () => this.#streams.delete(id),
    });
    this.#streams.set(id, stream);
    return stream;
  }

  #handle({ type, stream: id, payload }: Frame): boolean {
    if (type === frameType.drain && id === 0) {
      this.#onClosed(payload);
      return true;
    }
    if (type === frameType.open) return this.#onOpen(id, payload);
    const stream = this.#streams.get(id);
    // The other node sent this frame before it learned that the stream has ended.
    if (!stream) return id > 0 && id <= this.#lastId;
    switch (type) {
      case frameType.head:
        return stream.onHead(readJson(payload));
      case frameType.data:
        // A copy, because bytes that wait for their reader must not keep the whole message in memory.
        return stream.onData(Buffer.from(payload));
      case frameType.end:
        return stream.onEnd();
      case frameType.credit:
        return stream.onCredit(readCredit(payload));
      case frameType.reset: {
        const reset = readResetText(payload);
        stream.fail(
          new NodeLinkError('reset', `the other node ended the call: ${reset.code}`, reset),
        );
        return true;
      }
      default:
        return false;
    }
  }

  /** Handles that the other node closes the link. Calls that the other node had not read by then never began. */
  #onClosed(payload: Buffer): void {
    this.#isClosedByOther = true;
    const last = memberOf(readJson(payload), 'last');
    // Only the opener has calls in the link. A node of an older version does not report the last call that it read.
    if (this.#options.isOpener && typeof last === 'number') {
      const stopping = { code: 'stopping', detail: '' };
      for (const [id, stream] of this.#streams) {
        if (id > last) stream.fail(new NodeLinkError('reset', 'the other node stops', stopping));
      }
    }
    this.end('the other node closed it');
  }

  #onOpen(id: number, payload: Buffer): boolean {
    if (this.#options.isOpener || id !== this.#lastId + 1) return false;
    this.#lastId = id;
    const opening = readJson(payload);
    if (opening === undefined) return false;
    const stream = this.#add(id, false);
    if (this.#streams.size > maxStreams) stream.reset('busy');
    else this.#opened.push({ opening, stream });
    return true;
  }

  #send(frame: Buffer): void {
    if (this.#isEnded) return;
    if (this.#batchBytes + lengthBytes + frame.length > maxBatchBytes) this.#flush();
    if (this.#batch.length === 0) setImmediate(() => this.#flush());
    this.#batch.push(frame);
    this.#batchBytes += lengthBytes + frame.length;
  }

  /** Sends the frames of this turn as one message; a heartbeat may have no frames. */
  #flush(isHeartbeat = false): void {
    if (this.#isEnded || (this.#batch.length === 0 && !isHeartbeat)) return;
    const plain = withFrames(Buffer.allocUnsafe(this.#batchBytes), this.#batch);
    this.#batch = [];
    this.#batchBytes = 0;
    this.#lastSentAtMs = this.#options.nowMs();
    try {
      this.#options.publish(this.#outgoing.seal(plain));
      this.#firstUnsent = undefined;
    } catch (error) {
      this.end(error instanceof Error ? error.message : 'a message could not be sent');
    }
  }
}

/** Seals or opens the messages of one direction, each once and in order. AES-256-GCM; the sequence number is the nonce. */
class DirectionSeal {
  /** As a `KeyObject`: given as bytes, the key costs more per message than the cipher does. */
  readonly #key: KeyObject;
  #sequence = 0n;

  constructor(key: Buffer, direction: 'there' | 'back') {
    this.#key = createSecretKey(Buffer.from(hkdfSync('sha256', key, '', direction, 32)));
  }

  seal(frames: Buffer): Buffer {
    const sequence = this.#next();
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonceOf(sequence));
    const sealed = cipher.update(frames);
    return Buffer.concat([sequence, sealed, cipher.final(), cipher.getAuthTag()]);
  }

  /** The frames of the next message; `lost` for an authentic message that is not the next one, and `not read` for anything else. */
  open(message: Uint8Array): Buffer | 'not read' | 'lost' {
    const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
    const isPossible = bytes.length >= sequenceBytes + tagBytes && bytes.length <= maxMessageBytes;
    if (!isPossible) return 'not read';
    const sequence = bytes.readBigUInt64BE();
    if (sequence <= this.#sequence) return 'not read';
    const nonce = nonceOf(bytes.subarray(0, sequenceBytes));
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, {
      authTagLength: tagBytes,
    }).setAuthTag(bytes.subarray(-tagBytes));
    const frames = decipher.update(bytes.subarray(sequenceBytes, -tagBytes));
    try {
      // Checks the tag. In this mode it returns no more bytes.
      decipher.final();
    } catch {
      return 'not read';
    }
    if (sequence !== this.#sequence + 1n) return 'lost';
    this.#sequence = sequence;
    return frames;
  }

  #next(): Buffer {
    this.#sequence += 1n;
    const bytes = Buffer.alloc(sequenceBytes);
    bytes.writeBigUInt64BE(this.#sequence);
    return bytes;
  }
}

/** A nonce is unique for its key, because each direction of each link has a key of its own. */
function nonceOf(sequence: Buffer): Buffer {
  return Buffer.concat([Buffer.alloc(4), sequence]);
}

function readJson(payload: Buffer): unknown {
  return parseJson(payload.toString('utf8'));
}
