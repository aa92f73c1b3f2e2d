import { frameType, maxPayloadBytes, writeFrame } from './frame.ts';

/** A body on its way out, which sends as much as the other side has allowed, and END after the last byte. */
export class DepartingBody {
  #rest: Uint8Array;
  #allowed: number;
  #hasEnded = false;
  readonly #send: (frame: Buffer) => void;
  readonly #sent: () => void;
  readonly #stream: number;

  constructor(
    body: Uint8Array | undefined,
    {
      stream,
      windowBytes,
      send,
      sent = () => {},
    }: {
      stream: number;
      windowBytes: number;
      send: (frame: Buffer) => void;
      /** Told when nothing of the body is kept here any more. */
      sent?: (() => void) | undefined;
    },
  ) {
    this.#rest = body ?? new Uint8Array();
    this.#allowed = windowBytes;
    this.#stream = stream;
    this.#send = send;
    this.#sent = sent;
  }

  /** Whether END was sent. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** `bytes` more may go. */
  allow(bytes: number): void {
    // More than the body is long is as good as all of it.
    this.#allowed = Math.min(this.#allowed + bytes, Number.MAX_SAFE_INTEGER);
    this.flush();
  }

  /** Nobody wants the rest. */
  drop(): void {
    // Even an empty part of the body would keep all of it.
    this.#rest = new Uint8Array();
    this.#sent();
  }

  flush(): void {
    if (this.#hasEnded) return;
    while (this.#rest.length > 0 && this.#allowed > 0) {
      const length = Math.min(this.#rest.length, this.#allowed, maxPayloadBytes);
      this.#send(writeFrame(frameType.data, this.#stream, this.#rest.subarray(0, length)));
      this.#rest = this.#rest.subarray(length);
      this.#allowed -= length;
    }
    if (this.#rest.length > 0) return;
    this.#hasEnded = true;
    this.drop();
    this.#send(writeFrame(frameType.end, this.#stream));
  }
}
