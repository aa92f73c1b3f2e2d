import type { Clock } from '#clock/clock';
import type { Logger } from '#log/log';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { guardedFetch } from '#outbound/guarded-fetch';
import type { MasterKey } from '#signing/master-key';
import { EndConnections } from '#upstream-access/end-connections';
import type { EndedTokens } from '#upstream-access/ended-tokens';
import { endRegistrations } from '#upstream-access/end-registrations';
import { accessFetch, type clientsOf } from '#upstream-access/upstream-authorizations';
import { WebhookDeliveries } from '#webhooks/webhook-deliveries';
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
): { readonly endConnections: EndConnections } {
  const endConnections = new EndConnections({
    ended: stores.endedConnections,
    accesses: stores.upstreamAccesses,
    sealing: masterKey,
    clientOf,
    serverTokens: endedTokens,
    endRegistrations: () =>
      endRegistrations({
        registrations: stores.endedRegistrations,
        askFor: ({ vouchedHosts }) => accessFetch(guard, vouchedHosts),
        sealing: masterKey,
        audit: stores.audit,
        clock,
      }),
    audit: stores.audit,
    clock,
    failed: (err) => log.error({ err }, 'an authorization server was not told of an end'),
  });
  closers.push(() => endConnections.close());
  const deliveries = new WebhookDeliveries({
    backlog: stores.backlog,
    together: stores.together,
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
  return { endConnections };
}
