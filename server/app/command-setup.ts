import { lookup } from 'node:dns/promises';
import { join } from 'node:path';

import { checkBaseUrl } from '#config/base-url';
import { type Sealing, readMasterKey } from '#secrets/master-key';
import type { Clock } from '#model/clock';
import { listOutboundHosts } from '#db/outbound-hosts';
import { listSigningKeys } from '#db/signing-keys';
import type { Db } from '#db/transaction';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { upstreamSetup } from '#upstreams/credentials/setup';
import { providerSetup, systemTxt } from '#accounts/provider-setup';
import { mailSetup } from '#mail/mail-setup';
import { webhookSetup } from '#webhooks/webhook-setup';

/** The data folder and hosts that a command uses. */
export interface CommandPlace {
  readonly dataDir: string;
  readonly masterKeyFile: string | undefined;
  /** Hosts inside this network that requests may reach, `host` or `host:port`. */
  readonly outboundHosts: readonly string[];
  /** The public URL of the server, if the command knows it. */
  readonly baseUrl: string | undefined;
}

/**
 * The setup of upstream access, webhooks and mail for commands. The master key is read only when a command seals or opens a
 * secret, because other commands do not need it. A command may name more hosts inside this network than the server allows.
 */
export async function commandSetup(
  db: Db,
  { dataDir, masterKeyFile, outboundHosts, baseUrl }: CommandPlace,
  clock: Clock,
) {
  const mayCreate = (await listSigningKeys(db)).length === 0;
  const file = masterKeyFile ?? join(dataDir, 'master.key');
  const masterKey = () => readMasterKey(file, { mayCreate });
  const sealing: Sealing = {
    seal: (purpose, plaintext) => masterKey().seal(purpose, plaintext),
    open: (purpose, sealed) => masterKey().open(purpose, sealed),
    mac: (purpose, text) => masterKey().mac(purpose, text),
  };
  const added = (await listOutboundHosts(db)).map(({ host }) => host);
  const guard: OutboundGuard = {
    allowedHosts: [...outboundHosts, ...added],
    resolve: (host) => lookup(host, { all: true }),
    tellsUnknownNames: true,
  };
  const base = baseUrl === undefined ? undefined : checkBaseUrl(baseUrl);
  return { ...setupOf({ base, sealing, guard, clock }), base };
}

/** Creates the setups that check what administrators configure, and that seal the secrets in it. */
export function setupOf(
  parts: Parameters<typeof upstreamSetup>[0] & Parameters<typeof mailSetup>[0],
) {
  return {
    upstreamSetup: upstreamSetup(parts),
    webhookSetup: webhookSetup(parts),
    providerSetup: providerSetup({ ...parts, resolveTxt: systemTxt() }),
    mailSetup: mailSetup(parts),
    contentKey: parts.sealing,
  };
}
