import type { NodeGap } from '#db/call-gaps';
import type { CallGap } from '#model/calls';
import type { CallRowsPorts } from './call-rows.ts';

/** Calls that were dropped, by the names of their organizations, until they are written down as gaps. */
export class MissingCalls {
  readonly #ports: CallRowsPorts;
  readonly #gaps = new Map<string, CallGap>();

  constructor(ports: CallRowsPorts) {
    this.#ports = ports;
  }

  /** How many organizations have calls that are not written down yet. */
  get size(): number {
    return this.#gaps.size;
  }

  /** A call was dropped, because too many wait. */
  add(organization: string): void {
    const untilMs = this.#ports.nowMs();
    const { fromMs, calls } = this.#gaps.get(organization) ?? { fromMs: untilMs, calls: 0 };
    this.#gaps.set(organization, { reason: 'queue_full', fromMs, untilMs, calls: calls + 1 });
  }

  /** What is to be written. Once that is done, `written` is to be called. */
  async take(): Promise<{ readonly gaps: readonly NodeGap[]; readonly written: () => void }> {
    const { node, namesOf } = this.#ports;
    const taken = [...this.#gaps];
    const ids = await namesOf(
      'organization',
      taken.map(([organization]) => organization),
    );
    return {
      gaps: taken.flatMap(([organization, gap]) => {
        // An organization that was deleted meanwhile has no id.
        const organizationId = ids.get(organization);
        return organizationId === undefined ? [] : [{ ...gap, organizationId, node }];
      }),
      written: () => {
        for (const [organization, gap] of taken) this.#remove(organization, gap);
      },
    };
  }

  /** Calls that were dropped while the gap was written begin another one. */
  #remove(organization: string, { untilMs, calls }: CallGap): void {
    const now = this.#gaps.get(organization);
    if (now === undefined || now.calls === calls) this.#gaps.delete(organization);
    else this.#gaps.set(organization, { ...now, fromMs: untilMs, calls: now.calls - calls });
  }
}
