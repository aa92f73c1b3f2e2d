import type { Call } from './call.ts';
import type { Era } from './era.ts';
import type { Upstream } from './upstream.ts';

/** What of a call decides how its upstream is spoken to. */
export type FacedCall = Pick<Call, 'upstream' | 'owner' | 'admission'>;

/** Upstreams for callers of either era, whichever they speak themselves. */
export interface EraFaces {
  /**
   * The upstream of a call as one that speaks `era`: with the caller's own bytes where it does, translated
   * where it does not.
   */
  facing(era: Era, call: FacedCall): Upstream;

  /** Whether something is kept for an owner at upstreams for the sake of translation. */
  keeps(owner: string): boolean;

  /** Ends what is kept for an owner: links at their upstreams, calls that wait for them. */
  endOf(owner: string): void;

  /** Ends what was made at upstreams for the sake of translation. */
  close(): Promise<void>;
}
