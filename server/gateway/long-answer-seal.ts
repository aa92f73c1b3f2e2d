import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';

import { GatewayRefusal } from './gateway-refusal.ts';
import {
  type OwnedValue,
  type PrincipalSeal,
  relatedTask,
  type SealedCall,
  sealedValue,
  sealState,
} from './seal.ts';

const [quote, comma, colon, openBrace, closeBrace, openBracket, closeBracket, backslash] = [
  0x22, 0x2c, 0x3a, 0x7b, 0x7d, 0x5b, 0x5d, 0x5c,
];

/** All names, statuses and result types that matter are shorter. */
const longestNoted = 1024;
/** A longer task ID or request state is refused. Such a string is held until its end, because a MAC over all of it comes first. */
const longestHeld = 1024 * 1024;

/** The objects of a response that can contain a task ID or request state. */
type Place = 'message' | 'result' | 'task' | 'meta' | 'related';

const objectsIn: Readonly<Record<Place, ReadonlyMap<string, Place>>> = {
  message: new Map([['result', 'result']]),
  result: new Map([
    ['task', 'task'],
    ['_meta', 'meta'],
  ]),
  task: new Map(),
  meta: new Map([[relatedTask, 'related']]),
  related: new Map(),
};

type Owned = Omit<OwnedValue, 'span' | 'value'>;

const taskOfAnswer: Owned = { kind: 'task', keeper: 'upstream', isOfAnswer: true };
const taskMentioned: Owned = { kind: 'task', keeper: 'either' };

/** The members to seal: the same as `ownedValues` finds in the response of an upstream. */
const ownedIn: Readonly<Record<Place, ReadonlyMap<string, Owned>>> = {
  message: new Map(),
  result: new Map([
    ['taskId', taskOfAnswer],
    ['requestState', { kind: 'state', keeper: 'upstream' }],
  ]),
  task: new Map([['taskId', taskOfAnswer]]),
  meta: new Map([[relatedTask, taskMentioned]]),
  related: new Map([['taskId', taskMentioned]]),
};

/** The string that is being read: a name, a value to seal, a value to remember, or one that only passes. */
type Reading = 'name' | 'held' | 'noted' | 'passing';

/**
 * Seals task IDs and the request state in a JSON response that is too long to hold in memory; `sealed` does so in shorter
 * responses. Chunks are passed on as they arrive, except for the strings to replace.
 */
export class LongAnswerSeal {
  readonly #seal: PrincipalSeal;
  readonly #call: SealedCall;
  /** The relevant objects around the current byte, outermost first. */
  readonly #places: Place[] = [];
  /** How many irrelevant objects and arrays are open inside `#places`. */
  #skipped = 0;
  #name: string | undefined;
  #isName = false;
  #reading: Reading | undefined;
  #isEscaped = false;
  /** The part of the string that has arrived, quotes included, unless it only passes or is too long to matter. */
  readonly #token = new GatheredBytes();
  #tokenBytes = 0;
  #type: string | undefined;
  #status: string | undefined;
  #task: string | undefined;
  #hasState = false;
  #isOver = false;

  constructor(seal: PrincipalSeal, call: SealedCall) {
    this.#seal = seal;
    this.#call = call;
  }

  /** Takes the next part of the response, and returns the bytes that can be passed on now. @throws {GatewayRefusal} */
  push(part: Uint8Array): Uint8Array {
    const chunk = Buffer.from(part.buffer, part.byteOffset, part.byteLength);
    const passed: Uint8Array[] = [];
    let at = 0;
    let passedTo = 0;
    while (at < chunk.length && !this.#isOver) {
      const isNew = this.#reading === undefined;
      if (isNew) {
        const byte = chunk[at] ?? 0;
        if (byte === quote) this.#reading = this.#kindOfString();
        const added = byte === closeBrace ? this.#addedState() : undefined;
        if (added !== undefined || this.#isHolding) {
          passed.push(chunk.subarray(passedTo, at));
          passedTo = at;
        }
        if (added !== undefined) passed.push(Buffer.from(added));
        if (byte !== quote) {
          this.#structure(byte);
          at += 1;
          continue;
        }
      }
      const { end, isClosed } = this.#stringEnd(chunk, isNew ? at + 1 : at);
      this.#keep(chunk.subarray(at, end));
      at = end;
      if (!isClosed) continue;
      const wasHolding = this.#isHolding;
      const replaced = this.#endString();
      if (wasHolding) {
        passed.push(replaced);
        passedTo = at;
      }
    }
    if (!this.#isHolding) passed.push(chunk.subarray(passedTo));
    const [only] = passed;
    return only && passed.length === 1 ? only : Buffer.concat(passed);
  }

  get #isHolding(): boolean {
    return this.#reading === 'held';
  }

  get #place(): Place | undefined {
    return this.#skipped > 0 ? undefined : this.#places.at(-1);
  }

  #structure(byte: number): void {
    if (byte === openBrace || byte === openBracket) {
      const place = byte === openBrace ? this.#placeInside() : undefined;
      if (place) {
        this.#places.push(place);
        this.#isName = true;
      } else this.#skipped += 1;
    } else if (byte === closeBrace || byte === closeBracket) {
      if (this.#skipped > 0) this.#skipped -= 1;
      else if (this.#places.pop() === 'result') this.#noteTask();
      this.#isOver = this.#skipped === 0 && this.#places.length === 0;
    } else if (this.#place && byte === comma) this.#isName = true;
    else if (this.#place && byte === colon) this.#isName = false;
  }

  #placeInside(): Place | undefined {
    if (this.#places.length === 0 && this.#skipped === 0) return 'message';
    const place = this.#place;
    return place && objectsIn[place].get(this.#name ?? '');
  }

  #kindOfString(): Reading {
    const place = this.#place;
    if (!place) return 'passing';
    if (this.#isName) return 'name';
    const name = this.#name ?? '';
    if (ownedIn[place].has(name)) return 'held';
    const isNoted = place === 'result' && (name === 'resultType' || name === 'status');
    return isNoted ? 'noted' : 'passing';
  }

  /** Where the string ends in this chunk: after its closing quote, or at the end of the chunk. */
  #stringEnd(chunk: Buffer, start: number): { readonly end: number; readonly isClosed: boolean } {
    let from = this.#isEscaped ? start + 1 : start;
    this.#isEscaped = false;
    for (;;) {
      const found = chunk.indexOf(quote, from);
      const stop = found < 0 ? chunk.length : found;
      let backslashes = 0;
      while (stop - backslashes > from && chunk[stop - backslashes - 1] === backslash)
        backslashes += 1;
      const isEscaped = backslashes % 2 === 1;
      if (found < 0) {
        this.#isEscaped = isEscaped;
        return { end: stop, isClosed: false };
      }
      if (!isEscaped) return { end: found + 1, isClosed: true };
      from = found + 1;
    }
  }

  /** @throws {GatewayRefusal} `upstream_too_large` */
  #keep(bytes: Uint8Array): void {
    if (this.#reading === 'passing') return;
    this.#tokenBytes += bytes.length;
    if (this.#tokenBytes > longestHeld && this.#isHolding) {
      const detail = `its response has a task ID or requestState of more than ${longestHeld} bytes`;
      throw new GatewayRefusal('upstream_too_large', { detail });
    }
    if (this.#isHolding || this.#tokenBytes <= longestNoted) this.#token.add(bytes);
  }

  /** Returns the bytes to pass on instead of a string that was held. */
  #endString(): Uint8Array {
    const raw = this.#token.whole();
    const isWhole = raw.length > 0 && this.#tokenBytes === raw.length;
    const text = isWhole ? stringOf(raw) : undefined;
    const reading = this.#reading;
    this.#reading = undefined;
    this.#token.clear();
    this.#tokenBytes = 0;
    if (reading === 'name') {
      this.#name = text;
      if (text === 'requestState' && this.#place === 'result') this.#hasState = true;
    } else if (reading === 'noted' && this.#name === 'status') this.#status = text;
    else if (reading === 'noted') this.#type = text;
    else if (reading === 'held' && text !== undefined) return this.#sealed(text) ?? raw;
    return raw;
  }

  #sealed(value: string): Uint8Array | undefined {
    const place = this.#place;
    const owned = place && ownedIn[place].get(this.#name ?? '');
    const text = owned && sealedValue({ ...owned, value }, this.#seal, this.#call);
    if (text === undefined) return undefined;
    if (owned?.isOfAnswer) this.#task = text;
    return Buffer.from(JSON.stringify(text));
  }

  /** A `requestState` to append to a result that requires input and has none; `undefined` for other objects. */
  #addedState(): string | undefined {
    if (this.#place !== 'result' || this.#hasState || this.#type !== 'input_required')
      return undefined;
    const state = sealState(this.#seal, { callId: this.#call.callId, value: undefined });
    return `,"requestState":${JSON.stringify(state)}`;
  }

  #noteTask(): void {
    if (this.#task !== undefined) this.#call.isOfTask(this.#task, this.#status);
  }
}

/** The text of a JSON string; `undefined` if it is not valid. */
function stringOf(raw: Buffer): string | undefined {
  try {
    return String(JSON.parse(raw.toString()));
  } catch {
    return undefined;
  }
}
