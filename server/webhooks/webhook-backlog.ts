import type { KeptEvent } from '#audit/audit-log';
import type { EpochSeconds } from '#clock/clock';
import type { DisabledBecause, Webhook } from './webhook.ts';

/** Where a webhook stood when it was looked at; a change of it since makes this another place. */
export interface BacklogPlace {
  readonly id: string;
  readonly revision: number;
  readonly position: number;
}

/** What a webhook is to be sent next. */
export interface PendingEvent {
  readonly webhook: Webhook;
  readonly organization: string;
  readonly place: BacklogPlace;
  readonly event: KeptEvent;
  /** The position behind the event. */
  readonly next: number;
}

/**
 * What webhooks have not been sent yet. There is no queue: the record keeps its order for good, and a webhook's
 * position in it says all.
 */
export interface WebhookBacklog {
  /** Webhooks in force for which something was written down behind their position, and when they may be tried. */
  waiting(): Promise<{ readonly id: string; readonly nextAttemptAt: EpochSeconds }[]>;

  /** The next event that it wants; what it does not want is passed by. `undefined` when there is none, or it is over. */
  next(id: string): Promise<PendingEvent | undefined>;

  /** The event was delivered. `false` when the webhook was changed, or moved by another process, meanwhile. */
  delivered(place: BacklogPlace, next: number, at: EpochSeconds): Promise<boolean>;

  /** It was not, and is tried again or no more. `false` as above. */
  failed(
    place: BacklogPlace,
    failure: {
      readonly at: EpochSeconds;
      readonly why: string;
      readonly follows:
        | { readonly nextAttemptAt: EpochSeconds }
        | { readonly disabled: DisabledBecause };
    },
  ): Promise<boolean>;
}
