import { setTimeout as pause } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import { admissionQueries } from '#db/admissions';
import { activeSecret } from '#db/client-secrets';
import { callingClient } from '#db/clients';
import { DatabaseUnavailable } from '#db/faults';
import type { KeptQuery, KeptValues, ReadKept } from '#db/kept-query';
import { backOffs, pauseMs } from '#model/back-off';
import { numberTypes } from './open-postgres.ts';

const deadlineMs = 1000;
const mostWaiting = 4096;
const mostKept = 100_000;

const epochQuery = { name: 'epoch', text: 'select epoch from admission_epoch' };

/**
 * For each query, one that answers many questions. It returns a numbered row for each question with an answer, or one row with only the
 * epoch. `offset 0` keeps the planner from joining all questions at once, for which it would read every credential: each question is
 * answered on its own, with one row of each index.
 */
const rowsQueries = [...admissionQueries, activeSecret, callingClient].map((query) => {
  const { name, sql, parameters } = query;
  const arrays = parameters.map((_, index) => `$${index + 1}::text[]`).join(', ');
  const columns = parameters.map((parameter) => `"${parameter}"`).join(', ');
  const one = sql.replaceAll(/:(\w+)/g, 'asked."$1"');
  const text = `select e.epoch, found.* from admission_epoch e left join (
        select asked.n, answer.* from unnest(${arrays}) with ordinality as asked(${columns}, n),
        lateral (${one} offset 0) answer
      ) found on true`;
  return { query, sent: { name, text } };
});

/**
 * Forbids plans that read whole tables: PostgreSQL would choose such a plan for a few rows and keep it when there are many. Forbidden steps
 * have a high cost, for which PostgreSQL would compile the plan (`jit`), which takes longer than any of these queries.
 */
const settings = `set jit = off; set join_collapse_limit = 1; set enable_seqscan = off; set enable_hashjoin = off;
  set enable_mergejoin = off; set plan_cache_mode = force_generic_plan`;

/** One question, which waits for its answer. */
interface Question {
  readonly query: KeptQuery<object, never>;
  readonly values: KeptValues;
  readonly key: string;
  readonly resolve: (answer: object | undefined) => void;
  readonly reject: (error: Error) => void;
}

/** The questions of one turn of the event loop, which have one deadline. */
interface Turn {
  /** Questions without an answer. */
  open: Question[];
  readonly timer: NodeJS.Timeout;
  isOver: boolean;
}

/** The database did not answer within `deadlineMs`, too many questions wait for it, or this process may not answer. */
export class AdmissionsUnavailable extends DatabaseUnavailable {
  override readonly name = 'AdmissionsUnavailable';
}

export interface AdmissionReaderPorts {
  /** Whether this process may answer. If not, another process may have declared it dead. */
  readonly mayAnswer: () => boolean;
  /** Called once for every lost connection, and for every attempt to connect that failed. */
  readonly failed: (error: unknown) => void;
}

/**
 * Reads admissions, and the clients that ask for tokens, from PostgreSQL over a connection of its own, strictly: an answer is never older
 * than its question.
 *
 * The row of `admission_epoch` changes with every transaction that takes access away, in the same commit. Rows are kept under the
 * epoch of the snapshot that they were read in. The questions of a turn share one query of each kind, which reads the epoch and the
 * rows that are not kept; if the epoch has changed, the kept rows are read again. Absent rows are not kept.
 *
 * A question that is not answered within a second fails, and the connection is replaced.
 */
export class AdmissionReader {
  readonly #config: ClientConfig;
  readonly #ports: AdmissionReaderPorts;
  readonly #kept = new Map<string, object>();
  #epoch = -1;
  #client: Promise<Client> | undefined;
  #next: Turn | undefined;
  #isReading = false;
  #isClosed = false;
  /** The attempts that failed since the last answer. */
  #failures = 0;

  constructor(config: ClientConfig, ports: AdmissionReaderPorts) {
    this.#config = config;
    this.#ports = ports;
  }

  readonly read: ReadKept = <Answer extends object, Row>(
    query: KeptQuery<Answer, Row>,
    values: KeptValues,
  ) =>
    new Promise<Answer | undefined>((resolve, reject) => {
      const key = JSON.stringify([query.name, ...query.parameters.map((name) => values[name])]);
      // Rows under the same key come from the same query.
      this.#ask({ query, values, key, resolve: resolve as Question['resolve'], reject });
    });

  /** Connects ahead of the first question, whose deadline would otherwise include that. After a failure, the first question tries again. */
  async open(): Promise<void> {
    this.#client ??= this.#connect();
    await this.#client.catch((error: unknown) => {
      this.#client = undefined;
      this.#ports.failed(error);
    });
  }

  /** How many questions wait for the next query. */
  get waiting(): number {
    return this.#next?.open.length ?? 0;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const client = await this.#client?.catch(() => undefined);
    await client?.end();
  }

  #ask(question: Question): void {
    const turn = this.#next ?? this.#newTurn();
    if (this.#isClosed || turn.open.length >= mostWaiting) {
      question.reject(new AdmissionsUnavailable('too many calls wait for the database'));
      return;
    }
    turn.open.push(question);
    if (this.#isReading) return;
    this.#isReading = true;
    setImmediate(() => void this.#readTurns());
  }

  #newTurn(): Turn {
    const turn: Turn = {
      open: [],
      isOver: false,
      timer: setTimeout(() => this.#end(turn), deadlineMs),
    };
    this.#next = turn;
    return turn;
  }

  /** Gives up on a turn whose time is over, and on the connection that did not answer. */
  #end(turn: Turn): void {
    turn.isOver = true;
    if (turn === this.#next) this.#next = undefined;
    const error = new AdmissionsUnavailable(`the database did not answer within ${deadlineMs} ms`);
    for (const { reject } of turn.open) reject(error);
    turn.open = [];
    this.#replaceConnection(error);
  }

  async #readTurns(): Promise<void> {
    for (let turn = this.#next; turn; turn = this.#next) {
      this.#next = undefined;
      await this.#readTurn(turn);
      clearTimeout(turn.timer);
    }
    this.#isReading = false;
  }

  /** Answers all questions of a turn. Runs again on another connection if one breaks, until the turn is over. */
  async #readTurn(turn: Turn): Promise<void> {
    while (turn.open.length > 0) {
      try {
        const client = await this.#connected(turn);
        if (!client) return;
        await this.#answer(turn, client);
        this.#failures = 0;
      } catch (error) {
        if (turn.isOver) return;
        this.#replaceConnection(error);
        await this.#pause();
      }
    }
  }

  async #answer(turn: Turn, client: Client): Promise<void> {
    if (!this.#ports.mayAnswer()) {
      const error = new AdmissionsUnavailable('this node has not been seen by the database lately');
      for (const { reject } of turn.open.splice(0)) reject(error);
      return;
    }
    const unread = turn.open.filter(({ key }) => !this.#kept.has(key));
    const kept = turn.open.filter(({ key }) => this.#kept.has(key));
    if (unread.length === 0) {
      const { rows } = await client.query<{ epoch: number }>(epochQuery);
      this.#reached(rows[0]?.epoch);
    }
    for (const rowsQuery of rowsQueries) {
      const asked = unread.filter(({ query }) => query.name === rowsQuery.query.name);
      if (asked.length > 0) await this.#readRows(rowsQuery, asked, client);
    }
    // If the epoch has changed, no row is kept, and the questions are read again.
    for (const { key, resolve } of kept) {
      const answer = this.#kept.get(key);
      if (answer) resolve(answer);
    }
    turn.open = kept.filter(({ key }) => !this.#kept.has(key));
  }

  /** Answers those questions of one query for which no row is kept. */
  async #readRows(
    { query, sent }: (typeof rowsQueries)[number],
    asked: readonly Question[],
    client: Client,
  ): Promise<void> {
    const columns = query.parameters.map((name) => asked.map(({ values }) => values[name] ?? null));
    const { rows } = await client.query<{ epoch: number; n: number | null }>({
      ...sent,
      values: columns,
    });
    const epoch = rows[0]?.epoch;
    this.#reached(epoch);
    const found = new Map<number, object>();
    for (const row of rows) {
      // The other columns are those of the query.
      const answer = row.n === null ? undefined : query.read(row as never);
      if (answer) found.set(Number(row.n) - 1, answer);
    }
    for (const [index, { key, resolve }] of asked.entries()) {
      const answer = found.get(index);
      if (answer && epoch === this.#epoch) this.#kept.set(key, answer);
      resolve(answer);
    }
  }

  /** Forgets the rows that were kept under an earlier epoch, or all if there are too many. */
  #reached(epoch: number | undefined): void {
    if (epoch === undefined) throw new Error('the table admission_epoch is empty');
    if (epoch === this.#epoch && this.#kept.size < mostKept) return;
    this.#kept.clear();
    this.#epoch = epoch;
  }

  /** The connection; `undefined` if the turn is over before there is one. */
  async #connected(turn: Turn): Promise<Client | undefined> {
    while (!turn.isOver) {
      try {
        this.#client ??= this.#connect();
        return await this.#client;
      } catch (error) {
        this.#client = undefined;
        this.#ports.failed(error);
        await this.#pause();
      }
    }
    return undefined;
  }

  /** Waits before the next attempt: not at all after an answer, then longer after each failure. */
  async #pause(): Promise<void> {
    await pause(pauseMs(backOffs.admission, this.#failures));
    this.#failures += 1;
  }

  async #connect(): Promise<Client> {
    const client = new Client({
      ...this.#config,
      types: numberTypes,
      connectionTimeoutMillis: deadlineMs,
      keepAlive: true,
      application_name: 'latchkey admissions',
    });
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client));
    try {
      await client.connect();
      await client.query(settings);
      const { rows } = await client.query<{ standby: boolean }>(
        'select pg_is_in_recovery() as standby',
      );
      if (rows[0]?.standby !== false) throw new Error('the database is a standby');
    } catch (error) {
      destroy(client);
      throw error;
    }
    // Another server may answer now. If it lacks the last writes, it uses the same epochs again for other changes.
    this.#kept.clear();
    this.#epoch = -1;
    return client;
  }

  #lost(client: Client, error?: Error): void {
    void this.#client?.then(
      (current) => {
        if (current !== client) return;
        this.#client = undefined;
        if (!this.#isClosed) this.#ports.failed(error ?? new Error('the connection ended'));
      },
      () => undefined,
    );
  }

  #replaceConnection(error: unknown): void {
    const client = this.#client;
    this.#client = undefined;
    if (!client) return;
    void destroyOpened(client);
    if (!this.#isClosed) this.#ports.failed(error);
  }
}

/** Ends a connection that may still be opening. */
async function destroyOpened(opening: Promise<Client>): Promise<void> {
  const client = await opening.catch(() => undefined);
  if (client) destroy(client);
}

/** Ends a connection without waiting for its server. Its queries reject. */
function destroy(client: Client): void {
  client.connection.stream.destroy();
}
