import { sql, type Expression, type SqlBool } from 'kysely';

import { type CallEnd, callEnds, type UpstreamAccount } from '#model/calls';
import {
  allSeconds,
  anySubject,
  indexedKinds,
  type IndexedKind,
  markSeconds,
  quarterSeconds,
} from './call-seconds.ts';
import { callIdAt, callIdLetters, callQuarterMs, callQuarterOf, writtenAtMs } from './calls.ts';
import type { Schema } from './schema.ts';
import { type Db, isPostgres } from './transaction.ts';

// Decides which parts of the recorded calls a search reads: where calls are indexed, only the seconds in which all subjects of its filter
// have calls; elsewhere, everything.

/** Selects calls. Absent members select all. */
export interface CallFilter {
  /** The id of a person. */
  readonly person?: string | undefined;
  /** The address of a person in rows, as `emailKey` writes it. It is not indexed. */
  readonly personName?: string | undefined;
  /** The id of a device. It is not indexed: give the person, too. */
  readonly device?: string | undefined;
  /** The id of a key or client. */
  readonly credential?: string | undefined;
  /** The application, as it calls itself; `*` stands for any text. */
  readonly application?: string | undefined;
  /** Whether `application` is a name as in usage, which selects texts with any version or without one. */
  readonly hasAnyVersion?: boolean | undefined;
  readonly endpoint?: string | undefined;
  readonly target?: string | undefined;
  /** Names of tools or prompts, or URIs of resources; `*` stands for any text. */
  readonly names?: readonly string[] | undefined;
  /** The code of the error, or one of several codes. */
  readonly error?: string | readonly string[] | undefined;
  /** The account that the call was sent with. */
  readonly account?: UpstreamAccount | undefined;
  /** `failed`: all ends but `ok` and `cancelled`. */
  readonly end?: CallEnd | 'failed' | undefined;
  /** Rows of one call that needed several rounds. */
  readonly callId?: string | undefined;
  /** When the row was written, inclusive, in milliseconds since 1970. */
  readonly fromMs?: number | undefined;
  /** Exclusive. */
  readonly untilMs?: number | undefined;
}

/** A search for a page of calls. */
export interface CallSearch {
  readonly organizationId: string;
  readonly filter: CallFilter;
  /** Only calls on this side of a call: `older` than it, or `newer`. */
  readonly from?: { readonly id: string; readonly side: 'older' | 'newer' } | undefined;
  readonly limit: number;
  /** Rows written at or after this time are left out: another node may still be writing older ones. */
  readonly watermarkMs: number;
  /** How long to search. Every search reads at least one step, so that each continuation makes progress. */
  readonly budgetMs?: number | undefined;
  /** Once it is aborted, the search stops after the current step. */
  readonly signal?: AbortSignal | undefined;
}

/** The number of quarters whose index one query reads: at first `least`, and never fewer, because on a busy machine everything takes long. */
const quartersAtOnce = { least: 16, most: 384 };
/** About how many rows one query reads. */
const rowsAStep = { least: 1000, most: 4000 };
/** The rows of a step, divided by this, are the most parts that one query reads. */
const rowsAPartOfStep = 16;
/** SQLite blocks the process while it reads: a step of less than `least` is followed by a larger one, one of more than `most` by a smaller one. */
const stepMs = { least: 4, most: 8 };

/** How much a search reads per query, by how long queries take. On PostgreSQL always `most` rows: it blocks nothing, and each query has a cost. */
export class Pace {
  readonly #isFixed: boolean;
  rows: number;
  quarters: number = quartersAtOnce.least;

  constructor(db: Db) {
    this.#isFixed = isPostgres(db);
    this.rows = this.#isFixed ? rowsAStep.most : rowsAStep.least;
  }

  /** How many parts one query reads. */
  get parts(): number {
    return Math.ceil(this.rows / rowsAPartOfStep);
  }

  /** Adapts to the time in which rows were read. */
  tookForRows(ms: number): void {
    if (this.#isFixed) return;
    this.rows = Math.min(rowsAStep.most, Math.max(rowsAStep.least, this.rows * factorOf(ms)));
  }

  /** Adapts to the time in which the index of quarters was read. */
  tookForQuarters(ms: number): void {
    const factor = this.#isFixed ? 2 : factorOf(ms);
    this.quarters = Math.min(
      quartersAtOnce.most,
      Math.max(quartersAtOnce.least, this.quarters * factor),
    );
  }
}

function factorOf(ms: number): number {
  return ms < stepMs.least ? 2 : ms > stepMs.most ? 0.5 : 1;
}

/** Beginning another part costs about as much as reading this many rows. */
const rowsAPart = 5;

/** Whether a search goes from older calls to newer ones. */
export function isUp({ from }: CallSearch): boolean {
  return from?.side === 'newer';
}

/** Ids from `low` (inclusive) to `high` (exclusive). */
interface IdRange {
  readonly low: string;
  readonly high: string;
}

/** A part of the range to read. */
export interface Part extends IdRange {
  /** About how many rows it has; `undefined`: any number. */
  readonly rows: number | undefined;
}

/** The id to continue from if neither this part nor any after it has been read. */
function cursorOf(search: CallSearch, { low, high }: IdRange): string {
  // Removes the letter that `idAfter` may have added, so that the search continues after this id.
  return isUp(search) ? low.slice(0, callIdLetters) : high;
}

function rangeOf({ filter, from, watermarkMs }: CallSearch): IdRange {
  const { fromMs = 0, untilMs = Infinity } = filter;
  let low = callIdAt(fromMs);
  let high = callIdAt(Math.min(untilMs, watermarkMs));
  if (from?.side === 'older' && from.id < high) high = from.id;
  if (from?.side === 'newer' && from.id >= low) low = idAfter(from.id);
  return { low, high };
}

/** A bound directly after an id: no id lies between an id and the same id with one more letter. */
function idAfter(id: string): string {
  return id.length < callIdLetters ? id : `${id}0`;
}

/** The parts that one query reads, in the order of the search. There may be none. */
export interface Step {
  readonly cursor: string;
  readonly parts: readonly Part[];
}

/** Divides what a search reads into steps of a few thousand rows. */
export async function* stepsOf(db: Db, search: CallSearch, pace: Pace): AsyncGenerator<Step> {
  for await (const { range, parts } of partsOf(db, search, pace)) {
    if (parts.length === 0) yield { cursor: cursorOf(search, range), parts };
    for (let rest = parts; rest[0];) {
      const [first] = rest;
      const cursor = cursorOf(search, first);
      const count = countOfStep(rest, pace);
      if (count > 0) {
        yield { cursor, parts: rest.slice(0, count) };
        rest = rest.slice(count);
      } else {
        const [begin, others] = await cutPart(db, search, first, pace.rows);
        yield { cursor, parts: [begin] };
        rest = [...others, ...rest.slice(1)];
      }
    }
  }
}

/** How many of the first parts one query reads; 0 if the first one may have too many rows. */
function countOfStep(parts: readonly Part[], pace: Pace): number {
  let [rows, count] = [0, 0];
  for (const part of parts.slice(0, pace.parts)) {
    rows += part.rows ?? Infinity;
    if (rows > pace.rows) break;
    count += 1;
  }
  return count;
}

/** The beginning of a part, with as many rows as one query reads, and the rest. */
async function cutPart(
  db: Db,
  search: CallSearch,
  part: Part,
  rows: number,
): Promise<readonly [Part, readonly Part[]]> {
  const cut = await db
    .selectFrom('call_record')
    .select('id')
    .where('organization_id', '=', search.organizationId)
    .where('id', '>=', part.low)
    .where('id', '<', part.high)
    .orderBy('id', isUp(search) ? 'asc' : 'desc')
    .limit(1)
    .offset(rows)
    .executeTakeFirst();
  if (!cut) return [part, []];
  const upper = { low: isUp(search) ? idAfter(cut.id) : cut.id, high: part.high, rows: part.rows };
  const lower = { low: part.low, high: upper.low, rows: part.rows };
  return isUp(search) ? [lower, [upper]] : [{ ...upper }, [{ ...lower }]];
}

/** The parts of a stretch of time to read, in the order of the search. */
interface Stretch {
  readonly range: IdRange;
  readonly parts: readonly Part[];
}

/** Goes through the range in growing stretches, and looks up in the index which parts of each have to be read. */
async function* partsOf(db: Db, search: CallSearch, pace: Pace): AsyncGenerator<Stretch> {
  const range = await rangeWithCalls(db, search);
  if (!range) return;
  const wanted = wantedSubjects(search.filter);
  if (wanted.length === 0) {
    const { callId, personName } = search.filter;
    const isWhole = callId === undefined && personName === undefined;
    // Every row matches, so the limit ends the query.
    return yield { range, parts: [{ ...range, rows: isWhole ? 0 : undefined }] };
  }
  const first = callQuarterOf(writtenAtMs(range.low));
  const last = callQuarterOf(writtenAtMs(range.high));
  for (let done = 0; done <= last - first;) {
    const length = Math.min(pace.quarters, last - first + 1 - done);
    const from = isUp(search) ? first + done : last - done - length + 1;
    const stretch = within(range, {
      low: callIdAt(from * callQuarterMs),
      high: callIdAt((from + length) * callQuarterMs),
    });
    if (stretch) {
      const begunMs = performance.now();
      const parts = await partsOfQuarters(db, search, { from, to: from + length - 1, wanted });
      pace.tookForQuarters(performance.now() - begunMs);
      const inside = parts.flatMap((part) => {
        const cut = within(range, part);
        return cut ? [{ ...part, ...cut }] : [];
      });
      yield { range: stretch, parts: isUp(search) ? inside : inside.toReversed() };
    }
    done += length;
  }
}

/** The range of a search from its oldest call to its newest one; `undefined` if it has none. */
async function rangeWithCalls(db: Db, search: CallSearch): Promise<IdRange | undefined> {
  const range = rangeOf(search);
  const end = (order: 'asc' | 'desc') =>
    db
      .selectFrom('call_record')
      .select('id')
      .where('organization_id', '=', search.organizationId)
      .where('id', '>=', range.low)
      .where('id', '<', range.high)
      .orderBy('id', order)
      .limit(1)
      .executeTakeFirst();
  const [oldest, newest] = [await end('asc'), await end('desc')];
  return oldest && newest && { low: oldest.id, high: idAfter(newest.id) };
}

function within(range: IdRange, part: IdRange): IdRange | undefined {
  const low = part.low > range.low ? part.low : range.low;
  const high = part.high < range.high ? part.high : range.high;
  return low < high ? { low, high } : undefined;
}

/** Subjects of one kind. A call must have one of them. */
interface WantedSubjects {
  readonly kind: IndexedKind;
  readonly subjects: readonly string[];
  readonly are: SubjectTexts;
}

/** How to compare texts of subjects: exactly, as patterns in which `*` stands for any text, or as names that a version may follow. */
type SubjectTexts = 'exact' | 'patterns' | 'names';

const failedEnds = callEnds.filter((end) => end !== 'ok' && end !== 'cancelled');

/** The subjects that a filter selects, by kind. */
function wantedSubjects(filter: CallFilter): readonly WantedSubjects[] {
  const { person, credential, application, endpoint, target, names, error, end, account } = filter;
  const one = (subject: string | undefined) => (subject === undefined ? undefined : [subject]);
  const values: Readonly<Record<IndexedKind, readonly string[] | undefined>> = {
    error: error === undefined ? undefined : [error].flat(),
    end: end === 'failed' ? failedEnds : one(end),
    person: one(person),
    credential: one(credential),
    name: names,
    target: one(target),
    endpoint: one(endpoint),
    application: one(application),
    account: one(account),
  };
  const are: Partial<Record<IndexedKind, SubjectTexts>> = {
    name: 'patterns',
    application: filter.hasAnyVersion === true ? 'names' : 'patterns',
  };
  return Object.entries(values).flatMap(([name, subjects]) => {
    const kind = name as IndexedKind;
    return subjects ? [{ kind, subjects, are: are[kind] ?? 'exact' }] : [];
  });
}

interface WantedQuarters {
  readonly from: number;
  /** Inclusive. */
  readonly to: number;
  readonly wanted: readonly WantedSubjects[];
}

/** The parts of these quarters to read, ascending. Quarters without an index are read as a whole. */
async function partsOfQuarters(
  db: Db,
  search: CallSearch,
  { from, to, wanted }: WantedQuarters,
): Promise<readonly Part[]> {
  const { organizationId } = search;
  const quarters = await db
    .selectFrom('call_quarter')
    .select(['quarter', 'calls', 'seconds'])
    .where('organization_id', '=', organizationId)
    .where('quarter', '>=', from)
    .where('quarter', '<=', to)
    .where('calls', 'is not', null)
    .execute();
  const indexed = new Map(quarters.map((one) => [one.quarter, one]));
  let common = new Map<number, Seconds>(quarters.map(({ quarter }) => [quarter, allSeconds]));
  for (const one of wanted) {
    if (common.size === 0) break;
    common = inCommon(common, await secondsOfSubjects(db, organizationId, [...common.keys()], one));
  }
  const parts: Part[] = [];
  for (let quarter = from; quarter <= to; quarter += 1) {
    const seconds = common.get(quarter);
    const { calls, seconds: busy } = indexed.get(quarter) ?? {};
    if (calls === undefined || calls === null) {
      const last = parts.at(-1);
      const part = { ...rangeOfSeconds(quarter, 0, quarterSeconds), rows: undefined };
      // Neither this quarter nor the previous one has an index, so they form one part.
      if (last?.rows === undefined && last?.high === part.low)
        parts.splice(-1, 1, { ...part, low: last.low });
      else parts.push(part);
    } else if (seconds === allSeconds) {
      parts.push({ ...rangeOfSeconds(quarter, 0, quarterSeconds), rows: calls });
    } else if (seconds) {
      parts.push(...partsOfSeconds(quarter, seconds, calls / Math.max(1, busy ?? 0)));
    }
  }
  return parts;
}

/** A mark for each second of a quarter. */
type Seconds = Uint8Array | typeof allSeconds;

type SubjectRow = Pick<Schema['call_subject'], 'quarter' | 'subject' | 'seconds'>;

/**
 * The seconds in which any of these subjects has calls, by quarter. An earlier version did not index accounts: where a quarter has no
 * indexed account, calls in any of its seconds may have the account.
 */
async function secondsOfSubjects(
  db: Db,
  organizationId: string,
  quarters: readonly number[],
  { kind, subjects, are }: WantedSubjects,
): Promise<ReadonlyMap<number, Seconds>> {
  const isOfAccounts = kind === 'account';
  const isSubject = isOfAccounts
    ? sql`1 = 1`
    : isOneOf(db, 'subject', [...subjects, anySubject], are);
  // For SQLite, `cross join` sets the order of the loops: with a list of quarters and a list of subjects, it would look up only the quarters.
  const query = isPostgres(db)
    ? sql<SubjectRow>`select quarter, subject, seconds from call_subject where organization_id = ${organizationId}
        and quarter = any(${quarters}::bigint[]) and kind = ${kind} and ${isSubject}`
    : sql<SubjectRow>`select quarter, subject, seconds from json_each(${JSON.stringify(quarters)}) as given
        cross join call_subject where organization_id = ${organizationId} and quarter = given.value
        and kind = ${kind} and ${isSubject}`;
  const { rows } = await query.execute(db);
  const found = new Map<number, Seconds>();
  for (const { quarter, subject, seconds } of rows) {
    const known = found.get(quarter) ?? new Uint8Array(quarterSeconds);
    if (isOfAccounts && !subjects.includes(subject)) found.set(quarter, known);
    else if (known === allSeconds || seconds === allSeconds) found.set(quarter, allSeconds);
    else {
      markSeconds(seconds, known);
      found.set(quarter, known);
    }
  }
  if (isOfAccounts) {
    for (const quarter of quarters) if (!found.has(quarter)) found.set(quarter, allSeconds);
  }
  return found;
}

/** The seconds that are in both, by quarter. */
function inCommon(
  some: ReadonlyMap<number, Seconds>,
  others: ReadonlyMap<number, Seconds>,
): Map<number, Seconds> {
  const common = new Map<number, Seconds>();
  for (const [quarter, seconds] of some) {
    const other = others.get(quarter);
    if (other === undefined) continue;
    if (seconds === allSeconds || other === allSeconds) {
      common.set(quarter, seconds === allSeconds ? other : seconds);
      continue;
    }
    const both = seconds.map((isMarked, second) => isMarked & (other[second] ?? 0));
    if (both.includes(1)) common.set(quarter, both);
  }
  return common;
}

/** @param rows the average number of rows in a second that has any */
function partsOfSeconds(quarter: number, seconds: Uint8Array, rows: number): readonly Part[] {
  const runs: [number, number][] = [];
  for (const [second, isMarked] of seconds.entries()) {
    if (isMarked === 0) continue;
    const run = runs.at(-1);
    if (run && (second - run[1]) * rows <= rowsAPart) run[1] = second + 1;
    else runs.push([second, second + 1]);
  }
  return runs.map(([from, to]) => {
    const { low, high } = rangeOfSeconds(quarter, from, to);
    return { low, high, rows: Math.ceil((to - from) * rows) };
  });
}

/** @param to exclusive */
function rangeOfSeconds(quarter: number, from: number, to: number): IdRange {
  const beginMs = quarter * callQuarterMs;
  return { low: callIdAt(beginMs + from * 1000), high: callIdAt(beginMs + to * 1000) };
}

/**
 * Whether a column has one of these texts. In patterns, `*` stands for any text, and upper and lower case of ASCII letters are
 * the same on both databases.
 *
 * SQLite "The LIKE, GLOB, REGEXP, MATCH, and extract operators"; PostgreSQL §9.7.1
 */
function isOneOf(
  db: Db,
  column: string,
  texts: readonly string[],
  are: SubjectTexts,
): Expression<SqlBool> {
  const isPattern = (text: string) => are === 'patterns' && text.includes('*');
  const plain = texts.filter((text) => !isPattern(text));
  const like = sql.raw(isPostgres(db) ? 'ilike' : 'like');
  const parts = texts.filter(isPattern).map((text) => {
    const pattern = text.replaceAll(/[\\%_]/g, String.raw`\$&`).replaceAll('*', '%');
    return sql`${sql.ref(column)} ${like} ${pattern} escape '\\'`;
  });
  if (are === 'names') parts.push(...plain.map((name) => hasVersionAfter(column, name)));
  if (plain.length > 0) parts.push(sql`${sql.ref(column)} in (${sql.join(plain)})`);
  return parts.length > 0 ? sql<SqlBool>`(${sql.join(parts, sql` or `)})` : sql<SqlBool>`1 = 0`;
}

/** Whether a column has a name with a version, as in `Claude 1.2` or `claude/v1`. `applicationName` of usage removes the version. */
function hasVersionAfter(column: string, name: string) {
  // Both databases count characters.
  const place = Array.from(name).length + 1;
  const letter = (offset: number) => sql`substr(${sql.ref(column)}, ${sql.lit(place + offset)}, 1)`;
  return sql`(substr(${sql.ref(column)}, 1, ${sql.lit(place - 1)}) = ${name} and ${letter(0)} in (' ', '/')
    and (${letter(1)} between '0' and '9' or ${letter(1)} = 'v' and ${letter(2)} between '0' and '9'))`;
}

/** Whether a filter selects a row. */
export function matches(db: Db, filter: CallFilter): Expression<SqlBool> {
  const parts = wantedSubjects(filter).map(
    ({ kind, subjects, are }) => sql`${isOneOf(db, indexedKinds[kind].column, subjects, are)}`,
  );
  if (filter.callId !== undefined) parts.push(sql`call_id = ${filter.callId}`);
  if (filter.device !== undefined) parts.push(sql`device_id = ${filter.device}`);
  if (filter.personName !== undefined) parts.push(sql`lower(person_name) = ${filter.personName}`);
  return parts.length > 0 ? sql<SqlBool>`${sql.join(parts, sql` and `)}` : sql<SqlBool>`1 = 1`;
}
