import { setImmediate as afterOtherWork } from 'node:timers/promises';

import type { ContentPlace, StoredContent } from '#db/call-contents';
import type {
  CallContents,
  ContentKind,
  ContentMemory,
  ContentSettings,
} from '#model/call-contents';
import type { CallRecord } from '#model/calls';
import type { MasterKey } from '#secrets/master-key';
import { cleanedContents } from './clean-contents.ts';

const rowsAtOnce = 20;
const tellEveryMs = 60_000;

/** The purpose under which a value is sealed: it cannot be opened as the value of another place. */
export function contentPurpose(
  { organizationId, targetId, id }: ContentPlace,
  kind: ContentKind,
): string {
  return `call content ${organizationId} ${targetId} ${id} ${kind}`;
}

export interface ContentLogPorts {
  readonly memory: ContentMemory;
  readonly sealing: Pick<MasterKey, 'seal'>;
  /** The current settings of targets: what they store. */
  readonly settingsOf: (
    targetIds: readonly string[],
  ) => Promise<ReadonlyMap<string, ContentSettings>>;
  readonly write: (contents: readonly (ContentPlace & StoredContent)[]) => Promise<void>;
  readonly nowMs: () => number;
  /** Called when writing fails. The waiting contents are kept for the next attempt. */
  readonly failed: (error: unknown) => void;
  /** Called with the number of arguments and results that found no room since it was called last, at most once a minute. */
  readonly dropped: (count: number) => void;
}

interface Waiting {
  readonly call: CallRecord;
  readonly contents: CallContents;
}

/**
 * Stores arguments and results after the rows of their calls: it cleans and seals a few at a time, so that calls are answered in
 * between. It does not store contents that an owner has turned off meanwhile.
 */
export class ContentLog {
  readonly #ports: ContentLogPorts;
  readonly #waiting: Waiting[] = [];
  #told = 0;
  #toldAtMs = -Infinity;

  constructor(ports: ContentLogPorts) {
    this.#ports = ports;
  }

  /** Adds the contents of a call whose row was written. */
  add(call: CallRecord, contents: CallContents): void {
    this.#waiting.push({ call, contents });
  }

  /** Writes everything that waits. Never rejects. */
  async flush(): Promise<void> {
    this.#tellDropped();
    try {
      while (this.#waiting.length > 0) await this.#writeSome();
    } catch (error) {
      this.#ports.failed(error);
    }
  }

  async #writeSome(): Promise<void> {
    const { settingsOf, write } = this.#ports;
    const some = this.#waiting.slice(0, rowsAtOnce);
    const settings = await settingsOf([...new Set(some.map(({ contents }) => contents.targetId))]);
    const rows = [];
    for (const { call, contents } of some) {
      const now = settings.get(contents.targetId);
      if (now) rows.push(...this.#rowsOf(call, contents, now));
      await afterOtherWork();
    }
    if (rows.length > 0) await write(rows);
    this.#waiting.splice(0, some.length);
    for (const { contents } of some) contents.letGo();
  }

  #rowsOf(
    { organizationId, id }: CallRecord,
    contents: CallContents,
    now: ContentSettings,
  ): (ContentPlace & StoredContent)[] {
    const place = { organizationId, targetId: contents.targetId, id };
    return contents.values.flatMap(([kind, value]) => {
      if (!(kind === 'arguments' ? now.arguments : now.results)) return [];
      const cleaned = cleanedContents(kind, value, now.limitBytes, contents.secrets);
      if (!cleaned) return [];
      const sealed = this.#ports.sealing.seal(contentPurpose(place, kind), cleaned.text);
      return [{ ...place, kind, sealed, isCut: cleaned.isCut }];
    });
  }

  #tellDropped(): void {
    const { memory, nowMs, dropped } = this.#ports;
    const { refused } = memory;
    if (refused === this.#told || nowMs() - this.#toldAtMs < tellEveryMs) return;
    dropped(refused - this.#told);
    this.#told = refused;
    this.#toldAtMs = nowMs();
  }
}
