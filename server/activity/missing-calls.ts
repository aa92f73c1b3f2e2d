import type { NodeGap } from '#db/call-gaps';
import type { CallGap, GapReason } from '#model/calls';
import type { CallRowsPorts } from './call-rows.ts';

/** An organization, by its name or, where that is known already, its id. */
type Organization = { readonly name: string } | { readonly id: string };

/** A gap that is not written down yet. */
interface Unwritten {
  readonly organization: Organization;
  readonly gap: CallGap;
}

/** Calls that were dropped, until they are written down as gaps. */
export class MissingCalls {
  readonly #ports: CallRowsPorts;
  /** By reason and organization. */
  readonly #gaps = new Map<string, Unwritten>();

  constructor(ports: CallRowsPorts) {
    this.#ports = ports;
  }

  /** How many gaps are not written down yet. */
  get size(): number {
    return this.#gaps.size;
  }

  /** A call was dropped, because too many wait. */
  add(organization: string): void {
    this.#add('queue_full', organization, { name: organization });
  }

  /** The end of a call was dropped. Its row was written when the call began. */
  addEnd(organizationId: string): void {
    this.#add('ends_dropped', organizationId, { id: organizationId });
  }

  #add(reason: GapReason, key: string, organization: Organization): void {
    const untilMs = this.#ports.nowMs();
    const place = `${reason} ${key}`;
    const { fromMs, calls } = this.#gaps.get(place)?.gap ?? { fromMs: untilMs, calls: 0 };
    this.#gaps.set(place, { organization, gap: { reason, fromMs, untilMs, calls: calls + 1 } });
  }

  /** Returns the gaps to write, and a function to call once they are written. */
  async take(): Promise<{ readonly gaps: readonly NodeGap[]; readonly written: () => void }> {
    const { node, namesOf } = this.#ports;
    const taken = [...this.#gaps];
    const names = taken.flatMap(([, { organization }]) =>
      'name' in organization ? [organization.name] : [],
    );
    const ids = names.length > 0 ? await namesOf('organization', names) : undefined;
    return {
      gaps: taken.flatMap(([, { organization, gap }]) => {
        // An organization that was deleted meanwhile has no id.
        const organizationId = 'id' in organization ? organization.id : ids?.get(organization.name);
        return organizationId === undefined ? [] : [{ ...gap, organizationId, node }];
      }),
      written: () => {
        for (const [place, { gap }] of taken) this.#remove(place, gap);
      },
    };
  }

  /** Calls that were dropped while the gap was written begin another one. */
  #remove(place: string, { untilMs, calls }: CallGap): void {
    const now = this.#gaps.get(place);
    if (now === undefined || now.gap.calls === calls) this.#gaps.delete(place);
    else {
      const gap = { ...now.gap, fromMs: untilMs, calls: now.gap.calls - calls };
      this.#gaps.set(place, { ...now, gap });
    }
  }
}
