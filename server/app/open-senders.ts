import type { Clock } from '#model/clock';
import type { Logger } from '#log/log';
import type { IdentityProvider } from '#accounts/openid-provider';
import { ProviderChecks } from '#accounts/provider-checks';
import type { ProviderSetup } from '#accounts/provider-setup';
import type { MasterKey } from '#secrets/master-key';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { guardedFetch } from '#outbound/guarded-fetch';
import { accessFetch, type clientsOf } from '#upstreams/credentials/authorization-client';
import { CredentialCleanup } from '#upstreams/credentials/cleanup';
import type { EndedTokens } from '#upstreams/credentials/tokens';
import { MailDeliveries } from '#mail/mail-deliveries';
import type { MailSetup } from '#mail/mail-setup';
import { Notices } from '#notices/notices';
import { WebhookDeliveries } from '#webhooks/deliveries';
import { receiverLimits } from '#webhooks/webhook-setup';
import type { Closers } from './closers.ts';
import type { Stores } from './stores.ts';

export interface SendersFor {
  readonly stores: Stores;
  readonly masterKey: MasterKey;
  readonly guard: OutboundGuard;
  readonly clientOf: ReturnType<typeof clientsOf>;
  /** Tokens of servers (not of people) that must be revoked. */
  readonly endedTokens: () => Promise<readonly EndedTokens[]>;
  /** A token that changes whenever any process writes to the database. */
  readonly changeToken: () => string;
  readonly providerSetup: ProviderSetup;
  readonly mailSetup: MailSetup;
  /** The provider of the installation. */
  readonly identityProvider: IdentityProvider | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  /** The public URL of this server, for links in mails. */
  readonly base: string;
}

/**
 * Opens the background senders: one revokes the tokens of ended connections at authorization servers, one sends audit events to
 * webhooks, one sends mails, one announces what needs attention, and one checks people again at their identity providers.
 */
export function openSenders(
  { stores, masterKey, guard, clientOf, endedTokens, changeToken, ...others }: SendersFor,
  closers: Closers,
): { readonly credentialCleanup: CredentialCleanup } {
  const { providerSetup, identityProvider, clock, log } = others;
  const credentialCleanup = new CredentialCleanup({
    db: stores.db,
    takeServerTokens: endedTokens,
    clientOf,
    fetchOf: ({ vouchedHosts }) => accessFetch(guard, vouchedHosts),
    sealing: masterKey,
    clock,
    onError: (err) =>
      log.error({ err }, 'tokens or clients not revoked at their authorization server'),
  });
  closers.push(() => credentialCleanup.close());
  const deliveries = new WebhookDeliveries({
    db: stores.db,
    ask: guardedFetch({ ...receiverLimits, ...guard }),
    allowedHosts: guard.allowedHosts,
    sealing: masterKey,
    clock,
    random: Math.random,
    changeToken,
    undelivered: (webhook, words) =>
      log.info({ webhook }, `event not delivered: the receiver ${words}`),
    failed: (err) => log.error({ err }, 'events not delivered'),
  });
  closers.push(() => deliveries.close());
  const checks = new ProviderChecks({
    db: stores.db,
    clientOf: (provider) => providerSetup.clientOf(provider),
    identityProvider,
    sealing: masterKey,
    clock,
    random: Math.random,
    failed: (err) => log.error({ err }, 'people not checked at their identity provider'),
  });
  closers.push(() => checks.close());
  const mails = new MailDeliveries({
    db: stores.db,
    sealing: masterKey,
    guard,
    clock,
    random: Math.random,
    base: others.base,
    changeToken,
    undelivered: (organization, words) =>
      log.info({ organization }, `mail not sent: the mail server ${words}`),
    failed: (err) => log.error({ err }, 'mails not sent'),
  });
  closers.push(() => mails.close());
  const notices = new Notices({
    db: stores.db,
    mailSetup: others.mailSetup,
    clock,
    failed: (err) => log.error({ err }, 'notices not sent'),
  });
  closers.push(() => notices.close());
  return { credentialCleanup };
}
