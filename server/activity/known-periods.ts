import {
  type CallPeriod,
  callPeriodOf,
  callSubjects,
  isFailed,
  periodKind,
  subjectsOf,
} from '#db/calls';
import type { CallRecord } from '#model/calls';

/** Subjects of one kind and organization that are written down for a period. */
const maxSubjects = 2000;

/** The kinds of periods, for all calls and for those that failed. A kind is known by its place here. */
const kinds = (['end', ...callSubjects] as const).flatMap((kind) => [
  periodKind(kind, false),
  periodKind(kind, true),
]);

/** The subjects of an organization in a period, by the place of their kind. */
type Subjects = readonly Set<string>[];

/** Which subjects were written down for which periods, so that each is written once. */
export class KnownPeriods {
  /** By period and organization. */
  #known = new Map<number, Map<string, Subjects>>();
  #newest = 0;

  /** The periods of calls that are not written down yet. */
  newOf(calls: readonly CallRecord[]): readonly CallPeriod[] {
    const found = new Map<string, CallPeriod>();
    for (const call of calls) this.#find(call, found);
    return [...found.values()];
  }

  #find(call: CallRecord, found: Map<string, CallPeriod>): void {
    const { organizationId } = call;
    const period = callPeriodOf(call.id);
    const known = this.#known.get(period)?.get(organizationId);
    const note = (place: number, subject: string) => {
      const subjects = known?.[place];
      if (subjects?.has(subject)) return;
      const kept = (subjects?.size ?? 0) < maxSubjects ? subject : '';
      if (kept === '' && subjects?.has('')) return;
      const kind = kinds[place] ?? '';
      const key = `${period} ${organizationId} ${kind} ${kept}`;
      found.set(key, { organizationId, kind, subject: kept, period });
    };
    const failed = isFailed(call.end);
    note(0, call.end);
    if (failed) note(1, '');
    let place = 2;
    for (const subject of subjectsOf(call)) {
      if (subject !== undefined) note(place, subject);
      if (subject !== undefined && failed) note(place + 1, subject);
      place += 2;
    }
  }

  add(periods: readonly CallPeriod[]): void {
    for (const { organizationId, kind, subject, period } of periods) {
      if (period > this.#newest) {
        this.#newest = period;
        this.#known = new Map();
      }
      const ofPeriod = this.#known.get(period) ?? new Map<string, Subjects>();
      const subjects = ofPeriod.get(organizationId) ?? kinds.map(() => new Set<string>());
      subjects[kinds.indexOf(kind)]?.add(subject);
      this.#known.set(period, ofPeriod.set(organizationId, subjects));
    }
  }
}
