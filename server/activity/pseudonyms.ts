import { setImmediate as afterOtherWork } from 'node:timers/promises';

import {
  duePseudonyms,
  endRound,
  type PseudonymRequest,
  replaceInCalls,
} from '#db/call-pseudonyms';
import type { Db } from '#db/transaction';
import { RepeatedWork } from '#model/repeated-work';

const lookEveryMs = 5000;
/** How many calls one transaction goes through. */
const callsAtOnce = 500;
/** When to go through the calls again, in milliseconds after the request, because other processes may write calls late. */
const laterRoundsMs = [600_000, 86_400_000];

export interface PseudonymPorts {
  readonly db: Db;
  readonly nowMs: () => number;
  readonly failed: (error: unknown) => void;
}

/** Goes through all calls of the organization once, in small steps. Returns how many calls got the pseudonym. */
export async function replacePerson(
  db: Db,
  request: PseudonymRequest,
  isStopped: () => boolean = () => false,
): Promise<number> {
  let after = '';
  let changed = 0;
  for (;;) {
    if (isStopped()) return changed;
    const step = await replaceInCalls(db, request, { after, limit: callsAtOnce });
    changed += step.changed;
    if (step.last === undefined) break;
    after = step.last;
    // SQLite answers within the same turn of the event loop, and calls must not wait for all steps.
    await afterOtherWork();
  }
  const nextMs = laterRoundsMs[request.rounds];
  await endRound(db, request, nextMs === undefined ? undefined : request.requestedAtMs + nextMs);
  return changed;
}

/** Gives the requested pseudonyms to people. Several nodes may do so at the same time. */
export class Pseudonyms extends RepeatedWork {
  readonly #ports: PseudonymPorts;

  constructor(ports: PseudonymPorts) {
    super(lookEveryMs, ports.failed);
    this.#ports = ports;
    void this.run();
  }

  /** Handles the requests that are due. */
  protected override async work(): Promise<void> {
    const { db, nowMs } = this.#ports;
    for (const request of await duePseudonyms(db, nowMs())) {
      if (this.isClosed) return;
      await replacePerson(db, request, () => this.isClosed);
    }
  }
}
