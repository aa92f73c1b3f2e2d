import type { Clock } from '#clock/clock';
import type { Logger } from '#log/log';
import type { MasterKey } from '#oauth/master-key';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { guardedFetch } from '#outbound/guarded-fetch';
import { accessFetch, type clientsOf } from '#upstreams/credentials/authorization-client';
import { CredentialCleanup } from '#upstreams/credentials/cleanup';
import type { EndedTokens } from '#upstreams/credentials/tokens';
import { WebhookDeliveries } from '#webhooks/deliveries';
import { receiverLimits } from '#webhooks/webhook-setup';
import type { OpenStores } from './stores.ts';

export interface SendersFor {
  readonly stores: OpenStores;
  readonly masterKey: MasterKey;
  readonly guard: OutboundGuard;
  readonly clientOf: ReturnType<typeof clientsOf>;
  /** Tokens of servers' own that are to be revoked. */
  readonly endedTokens: () => Promise<readonly EndedTokens[]>;
  /** Another text than before, once anything was written. */
  readonly written: () => string;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Opens what tells others in the background of what happened here: authorization servers that a connection ended, and
 * webhooks of what was written down.
 */
export function openSenders(
  { stores, masterKey, guard, clientOf, endedTokens, written, clock, log }: SendersFor,
  closers: (() => Promise<void>)[],
): { readonly credentialCleanup: CredentialCleanup } {
  const credentialCleanup = new CredentialCleanup({
    db: stores.db,
    takeServerTokens: endedTokens,
    clientOf,
    fetchOf: ({ vouchedHosts }) => accessFetch(guard, vouchedHosts),
    sealing: masterKey,
    clock,
    onError: (err) => log.error({ err }, 'an authorization server was not told of an end'),
  });
  closers.push(() => credentialCleanup.close());
  const deliveries = new WebhookDeliveries({
    db: stores.db,
    ask: guardedFetch({ ...receiverLimits, ...guard }),
    allowedHosts: guard.allowedHosts,
    sealing: masterKey,
    clock,
    random: Math.random,
    written,
    undelivered: (webhook, words) => log.info({ webhook }, `event not delivered: it ${words}`),
    failed: (err) => log.error({ err }, 'events not delivered'),
  });
  closers.push(() => deliveries.close());
  return { credentialCleanup };
}
