import { createHash } from 'node:crypto';
import { type AuditEvent, insertAuditEvent } from '#db/audit';
import { acceptedText } from '#db/definitions';
import {
  compareDefinitions,
  type ComparedDefinitions,
  definitionsState,
  type ListedDefinitions,
  noteDefinitions,
} from '#db/note-definitions';
import type { Db } from '#db/transaction';
import type { Clock, EpochSeconds } from '#model/clock';
import type { DefinitionKind } from '#model/definitions';
import type { Target } from '#model/endpoints';
import { LimitedMap } from '#model/limited-map';
import type { Edit } from 'latchkey-mcp/json-edit';
import { instructionsDigest } from './definition.ts';

export interface DefinitionWatchPorts {
  readonly db: Db;
  readonly clock: Clock;
}

const maxRecorded = 10_000;
/** How many changes of one server get an audit entry each day, so that a hostile server cannot fill the disk. */
const mostChangesADay = 1_000;
/** The same limit for instructions, into which some servers write the time or the caller. */
const mostInstructionsADay = 10;
/** How many times a day people are told that definitions of a server wait for review. */
const mostReviewsADay = 100;
const maxServers = 10_000;
const daySeconds = 86_400;
const maxPages = 1_000;
/** The most text of replacements that is remembered for one page. */
const maxEditLetters = 64 * 1024;

/** An entry of the audit log, and the key that identifies the change. */
interface Noted {
  readonly key: string;
  readonly event: AuditEvent;
}

/** How many entries a server got on a day. */
interface DayCount {
  readonly day: number;
  readonly changes: number;
  readonly reviews: number;
}

/** The result of comparing a page of a list. */
export interface PageOutcome {
  /** Their spans are offsets in the answer with its id cut out. */
  readonly edits: readonly Edit[];
  readonly basis: ComparedDefinitions['basis'];
}

/**
 * Compares every list with the accepted definitions. Changing a tool but not its name is a known attack on assistants. The change is
 * recorded in the audit log, and the tool is withheld if the server's administrators chose that. Definitions beyond the number that
 * can be remembered are always withheld, because they could not be compared later.
 */
export class DefinitionWatch {
  readonly #ports: DefinitionWatchPorts;
  /** Recorded changes, oldest first. Without them, a server that lists different tools for different callers would repeat its entries. */
  readonly #recorded = new LimitedMap<string, true>(maxRecorded);
  readonly #ofDay = new LimitedMap<string, DayCount>(maxServers);
  /** The results of pages that were listed before, by server and page. */
  readonly #pages = new LimitedMap<string, PageOutcome>(maxPages);

  constructor(ports: DefinitionWatchPorts) {
    this.#ports = ports;
  }

  /** How many recorded changes are remembered. */
  get recorded(): number {
    return this.#recorded.size;
  }

  /** Compares what a server lists with the accepted definitions, and records new changes in the audit log. */
  async look(target: Target, listed: ListedDefinitions): Promise<ComparedDefinitions> {
    const { db, clock } = this.#ports;
    const now = clock.now();
    let noted: readonly Noted[] = [];
    const found = await noteDefinitions(db, target.id, listed, now, async (tx, result) => {
      noted = this.#unrecorded(target, listed.kind, result, now);
      for (const { event } of noted) await insertAuditEvent(tx, event);
    });
    this.#remember(countedAs(target.id, listed.kind), noted, now);
    return found;
  }

  /** Compares an answer that may be old. Stores and records nothing. */
  compare({ id }: Target, listed: ListedDefinitions): Promise<ComparedDefinitions> {
    return compareDefinitions(this.#ports.db, id, listed, this.#ports.clock.now());
  }

  /** The instructions that were accepted last; `undefined` if there are none, or they are too long to be stored. */
  async acceptedInstructions({ id }: Target): Promise<string | undefined> {
    const accepted = await acceptedText(this.#ports.db, id, 'instructions');
    const isWhole = accepted && instructionsDigest(accepted.text) === accepted.digest;
    return isWhole ? accepted.text : undefined;
  }

  /** The earlier result of the same page, if a comparison now would have the same result. */
  async recall({ id }: Target, page: string): Promise<PageOutcome | undefined> {
    const known = this.#pages.get(`${id} ${page}`);
    if (!known?.basis || known.basis.until <= this.#ports.clock.now()) return undefined;
    const state = await definitionsState(this.#ports.db, id);
    return state === known.basis.state ? known : undefined;
  }

  remember({ id }: Target, page: string, outcome: PageOutcome): void {
    const letters = outcome.edits.reduce((sum, { text }) => sum + text.length, 0);
    const isSmall = letters + 100 * outcome.edits.length <= maxEditLetters;
    if (outcome.basis && isSmall) this.#pages.set(`${id} ${page}`, outcome);
  }

  /** The changes in a comparison that have not been recorded yet. */
  #unrecorded(
    { id, organization, name: server }: Target,
    kind: DefinitionKind,
    { changed, added, beyond }: ComparedDefinitions,
    now: EpochSeconds,
  ): readonly Noted[] {
    const day = dayOf(now);
    const place = `${organization}/${server}`;
    const { changes: changesToday, reviews } = this.#countsOf(countedAs(id, kind), day);
    const noted = (what: string, action: string, target: string): Noted => ({
      key: createHash('sha256').update(`${id} ${what}`).digest('base64url'),
      event: {
        at: now,
        actor: 'system',
        organization,
        action,
        target: target.slice(0, 200),
        address: undefined,
        requestId: undefined,
        outcome: 'done',
      },
    });
    const isNew = ({ key }: Noted) => !this.#recorded.has(key);
    const subjectOf = (name: string) =>
      kind === 'instructions' ? `server:${place}` : `${kind}:${place}/${name}`;
    const changes = changed
      .map(({ name, digest }) =>
        noted(`${kind} ${digest} ${name}`, changeActions[kind], subjectOf(name)),
      )
      .filter(isNew);
    const waiting = added.filter(({ name, digest }) =>
      isNew(noted(`${kind} ${digest} ${name}`, '', '')),
    );
    const most = kind === 'instructions' ? mostInstructionsADay : mostChangesADay;
    const left = Math.max(0, most - changesToday);
    const count = changes.length + waiting.length;
    const first = [...changed, ...added].map(({ digest }) => digest).join();
    const others = [
      ...(changes.length > left
        ? [noted(`often ${day}`, 'tool.changed-often', `server:${place}`)]
        : []),
      ...(beyond.length > 0 ? [noted(`day ${day}`, 'tool.limit', `server:${place}`)] : []),
      ...(count > 0 && reviews < (kind === 'instructions' ? most : mostReviewsADay)
        ? [noted(`review ${kind} ${first}`, reviewAction, `server:${place} waiting:${count}`)]
        : []),
    ];
    return [...changes.slice(0, left), ...others.filter(isNew)];
  }

  #remember(counted: string, noted: readonly Noted[], now: EpochSeconds): void {
    if (noted.length === 0) return;
    for (const { key } of noted) this.#recorded.set(key, true);
    const day = dayOf(now);
    const before = this.#countsOf(counted, day);
    const countOf = (isCounted: (action: string) => boolean) =>
      noted.filter(({ event: { action } }) => isCounted(action)).length;
    this.#ofDay.set(counted, {
      day,
      changes: before.changes + countOf((action) => changeActionNames.has(action)),
      reviews: before.reviews + countOf((action) => action === reviewAction),
    });
  }

  #countsOf(counted: string, day: number): DayCount {
    const known = this.#ofDay.get(counted);
    return known?.day === day ? known : { day, changes: 0, reviews: 0 };
  }
}

/** Instructions have a count of their own, so that many changes to them do not hide changes in lists, nor the other way round. */
function countedAs(targetId: string, kind: DefinitionKind): string {
  return kind === 'instructions' ? `${targetId} instructions` : targetId;
}

const reviewAction = 'tool.review';

const changeActions: Readonly<Record<DefinitionKind, string>> = {
  tool: 'tool.changed',
  prompt: 'prompt.changed',
  template: 'template.changed',
  instructions: 'instructions.changed',
};

const changeActionNames: ReadonlySet<string> = new Set(Object.values(changeActions));

function dayOf(now: EpochSeconds): number {
  return Math.floor(now / daySeconds);
}
