import type { Selectable } from 'kysely';

import type { CallRecord } from '#model/calls';
import { callQuarterMs, writtenAtMs } from './calls.ts';
import type { Schema } from './schema.ts';

// The index of recorded calls: for each subject and quarter of an hour, the seconds in which the subject has calls.

type CallColumn = keyof Schema['call_record'];

/** The kinds of subjects that calls can be found by: the column of each kind, and how to read its value from a call. */
export const indexedKinds = {
  person: { column: 'person_id', of: ({ person }) => person?.id },
  credential: { column: 'credential_id', of: ({ credential }) => credential.id },
  application: { column: 'application', of: ({ application }) => application?.text },
  endpoint: { column: 'endpoint_id', of: ({ endpoint }) => endpoint.id },
  target: { column: 'target_id', of: ({ target }) => target.id },
  name: { column: 'subject', of: ({ subject }) => subject },
  error: { column: 'error', of: ({ error }) => error },
  end: { column: 'outcome', of: ({ end }) => end },
  account: { column: 'account', of: ({ account }) => account },
} as const satisfies Readonly<
  Record<
    string,
    { readonly column: CallColumn; readonly of: (call: CallRecord) => string | undefined }
  >
>;
export type IndexedKind = keyof typeof indexedKinds;
export type IndexedColumn = (typeof indexedKinds)[IndexedKind]['column'];

const kinds: readonly (readonly [string, (typeof indexedKinds)[IndexedKind]])[] =
  Object.entries(indexedKinds);
export const indexedColumns: readonly IndexedColumn[] = kinds.map(([, { column }]) => column);

export const quarterSeconds = callQuarterMs / 1000;
/** How many subjects of one kind are indexed by name in a quarter; the others share `anySubject`. */
const maxSubjects = 2000;
/** The subject that stands for all subjects beyond `maxSubjects`. */
export const anySubject = '';

/** Stands for all seconds, if a subject has calls in more than half of the seconds with calls: searching only those would save little. */
export const allSeconds = '*';
/** Once a subject has more seconds than this, further ones are not noted. */
const mostSeconds = quarterSeconds / 2;
const letters = 2;
const base = 36;

/** Seconds of a quarter, ascending, as text: each is a number in base 36, with two characters. */
function secondsText(seconds: readonly number[]): string {
  return seconds.map((second) => second.toString(base).padStart(letters, '0')).join('');
}

/**
 * Marks the seconds of a text. A search calls this for many thousands of texts.
 *
 * @param text not `allSeconds`
 */
export function markSeconds(text: string, marks: Uint8Array): void {
  for (let place = 0; place < text.length; place += letters) {
    marks[digitAt(text, place) * base + digitAt(text, place + 1)] = 1;
  }
}

function digitAt(text: string, place: number): number {
  const code = text.charCodeAt(place);
  return code < 58 ? code - 48 : code - 87;
}

type IndexedRow = Pick<Selectable<Schema['call_record']>, 'id' | IndexedColumn>;

interface KindSeconds {
  readonly kind: string;
  readonly column: IndexedColumn;
  readonly of: (call: CallRecord) => string | undefined;
  /** The seconds in which each subject has calls. Most are noted in order. */
  readonly subjects: Map<string, number[]>;
  /** The subject and seconds of the last call, because the next call often has the same subject. */
  last: { readonly subject: string; readonly seconds: number[] } | undefined;
}

/** The approximate memory for a subject besides its seconds, counted in numbers of 8 bytes. */
const subjectSize = 30;

/**
 * The seconds of a quarter in which each subject has calls. It may list seconds in which a subject has none; that is harmless,
 * because a search checks the calls themselves.
 */
export class SubjectSeconds {
  readonly #beginMs: number;
  readonly #kinds: readonly KindSeconds[] = kinds.map(([kind, { column, of }]) => {
    return { kind, column, of, subjects: new Map(), last: undefined };
  });
  readonly #busy = new Uint8Array(quarterSeconds);
  #calls = 0;
  #size = quarterSeconds;
  #second = 0;
  /** The letters of the last id that tell when its row was written. */
  #beginning = '-';

  constructor(quarter: number) {
    this.#beginMs = quarter * callQuarterMs;
  }

  /** How many calls were noted. */
  get calls(): number {
    return this.#calls;
  }

  /** How many seconds of the quarter have calls. */
  get busySeconds(): number {
    return this.#busy.reduce((sum, isBusy) => sum + isBusy, 0);
  }

  /** The approximate memory it takes, counted in numbers of 8 bytes. */
  get size(): number {
    return this.#size;
  }

  noteCall(call: CallRecord): void {
    this.#noteId(call.id);
    for (const kind of this.#kinds) this.#note(kind, kind.of(call));
  }

  noteRow(row: IndexedRow): void {
    this.#noteId(row.id);
    for (const kind of this.#kinds) this.#note(kind, row[kind.column]);
  }

  #noteId(id: string): void {
    this.#calls += 1;
    // Most rows of a batch are written in the same millisecond.
    if (id.startsWith(this.#beginning)) return;
    this.#beginning = id.slice(0, 12);
    this.#second = Math.floor((writtenAtMs(id) - this.#beginMs) / 1000);
    this.#busy[this.#second] = 1;
  }

  #note(kind: KindSeconds, subject: string | null | undefined): void {
    if (subject === null || subject === undefined) return;
    if (kind.last?.subject !== subject) {
      kind.last = { subject, seconds: this.#secondsOf(kind, subject) };
    }
    const { seconds } = kind.last;
    if (seconds.length > mostSeconds || seconds.at(-1) === this.#second) return;
    seconds.push(this.#second);
    this.#size += 1;
  }

  #secondsOf({ subjects }: KindSeconds, subject: string): number[] {
    const kept = subjects.has(subject) || subjects.size < maxSubjects ? subject : anySubject;
    let seconds = subjects.get(kept);
    if (!seconds) {
      seconds = [];
      subjects.set(kept, seconds);
      this.#size += subjectSize + kept.length;
    }
    return seconds;
  }

  /** Kind, subject and seconds as text. */
  entries(): (readonly [string, string, string])[] {
    const most = this.busySeconds / 2;
    return this.#kinds.flatMap(({ kind, subjects }) =>
      [...subjects].map(([subject, noted]) => {
        const seconds = [...new Set(noted)].toSorted((one, other) => one - other);
        const isAll = noted.length > mostSeconds || seconds.length > most;
        return [kind, subject, isAll ? allSeconds : secondsText(seconds)] as const;
      }),
    );
  }
}
