import type { EpochSeconds } from '#clock/clock';
import type { Sealing } from '#people/sealing';
import { webhookSecretPurpose, type Webhook } from './webhook.ts';

/** The secret, and for a while the one before it: a receiver knows one of them. */
export function secretsOf(
  { id, sealedSecret, earlierSecret }: Webhook,
  sealing: Pick<Sealing, 'open'>,
  now: EpochSeconds,
): string[] {
  const earlier = earlierSecret && earlierSecret.until > now ? [earlierSecret.sealed] : [];
  return [sealedSecret, ...earlier].map((sealed) => sealing.open(webhookSecretPurpose(id), sealed));
}
