import type { EpochSeconds } from '#clock/clock';

/** Where an organization has its events sent as they happen, and how that goes. */
export interface Webhook {
  readonly id: string;
  readonly organizationId: string;
  readonly url: string;
  /** Which are wanted: `key.create`, or `key.` for all that begin so. Empty for every event. */
  readonly actions: readonly string[];
  /** Sealed for `webhookSecretPurpose`. */
  readonly sealedSecret: string;
  /** The one before, by which messages are signed as well for a while. */
  readonly earlierSecret: { readonly sealed: string; readonly until: EpochSeconds } | undefined;
  /** How often the next event was sent in vain. */
  readonly attempts: number;
  readonly nextAttemptAt: EpochSeconds;
  readonly failingSince: EpochSeconds | undefined;
  readonly lastSuccessAt: EpochSeconds | undefined;
  /** In words that go behind "it", without the path of the URL, which may be a secret. */
  readonly lastFailure: { readonly at: EpochSeconds; readonly why: string } | undefined;
  readonly disabled: { readonly at: EpochSeconds; readonly because: DisabledBecause } | undefined;
  readonly createdAt: EpochSeconds;
}

/** Somebody did it; or its receiver answered that it is gone (410); or answered nothing good for days. */
export type DisabledBecause = 'asked' | 'gone' | 'failing';

export type NewWebhook = Pick<
  Webhook,
  'id' | 'organizationId' | 'url' | 'actions' | 'sealedSecret' | 'createdAt'
>;

/** What somebody changes; what is left out stays. A change also forgets what failed before it. */
export interface WebhookChange {
  readonly url?: string;
  readonly actions?: readonly string[];
  readonly secret?: Pick<Webhook, 'sealedSecret' | 'earlierSecret'>;
  readonly disabled?: NonNullable<Webhook['disabled']>;
  /** Goes on behind the last event that it has, or begins with what happens from now on. */
  readonly enabled?: 'where-it-stood' | 'from-now';
}

/** The webhooks of organizations. */
export interface WebhookStore {
  /** The oldest first. */
  list(organizationId: string): Promise<Webhook[]>;

  byId(organizationId: string, id: string): Promise<Webhook | undefined>;

  /** It gets what happens from now on. `false` when the organization has `most` already. */
  add(webhook: NewWebhook, most: number): Promise<boolean>;

  /** `false` when there is none. */
  change(organizationId: string, id: string, change: WebhookChange): Promise<boolean>;

  remove(organizationId: string, id: string): Promise<boolean>;
}

/** What a webhook's secrets are sealed for: no other one's. */
export function webhookSecretPurpose(webhookId: string): string {
  return `webhook secret ${webhookId}`;
}
