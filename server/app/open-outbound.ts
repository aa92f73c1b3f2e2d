import { lookup } from 'node:dns/promises';

import type { ChangeStore } from '#db/changes';
import { listOutboundHosts } from '#db/outbound-hosts';
import type { Db } from '#db/transaction';
import type { Logger } from '#log/log';
import { AllowedHosts } from '#outbound/allowed-hosts';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { NameResolver } from '#outbound/name-resolver';
import type { Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';

/** On PostgreSQL, a change token is up to half a second old. */
const lookEveryMs = 250;

interface OutboundParts {
  readonly db: Db;
  readonly changes: Pick<ChangeStore, 'changeToken'>;
  readonly log: Logger;
}

/**
 * Opens the resolver for hosts of URLs that users chose, and the list of hosts inside this network that requests may reach: those of
 * the options, and those that the operator allowed later. Every process reads the list again when the database has changed.
 */
export async function openOutbound(
  { nodePath, env = {}, outboundHosts = [] }: ServeOptions,
  { db, changes, log }: OutboundParts,
  closers: Closers,
): Promise<OutboundGuard> {
  const names = new NameResolver({
    lookup: (host) => lookup(host, { all: true }),
    nodePath,
    env,
  });
  closers.push(async () => names.close());
  const allowed = new AllowedHosts(outboundHosts);
  let asOf: string | undefined;
  let reading: Promise<void> | undefined;
  const read = async () => {
    const token = changes.changeToken();
    if (token === asOf) return;
    const hosts = await listOutboundHosts(db);
    allowed.replaceOthers(hosts.map(({ host }) => host));
    asOf = token;
  };
  await read();
  const timer = setInterval(() => {
    reading ??= read()
      .catch((err: unknown) => log.error({ err }, 'allowed outbound hosts not read'))
      .finally(() => {
        reading = undefined;
      });
  }, lookEveryMs).unref();
  closers.push(async () => {
    clearInterval(timer);
    await reading;
  });
  return { allowedHosts: allowed.list, resolve: (host) => names.resolve(host) };
}
