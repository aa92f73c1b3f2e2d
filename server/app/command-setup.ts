import { lookup } from 'node:dns/promises';
import { join } from 'node:path';

import { checkBaseUrl } from '#config/base-url';
import { type Sealing, readMasterKey } from '#secrets/master-key';
import type { Clock } from '#model/clock';
import { listSigningKeys } from '#db/signing-keys';
import type { Db } from '#db/transaction';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { upstreamSetup, type UpstreamSetup } from '#upstreams/credentials/setup';
import { webhookSetup, type WebhookSetup } from '#webhooks/webhook-setup';

/** Where a command finds what it stands on. */
export interface CommandPlace {
  readonly dataDir: string;
  readonly masterKeyFile: string | undefined;
  /** Hosts inside this network that may be asked, `host` or `host:port`. */
  readonly outboundHosts: readonly string[];
  /** The public URL of the server, where the command was told. */
  readonly baseUrl: string | undefined;
}

/**
 * What commands set the access to upstreams and webhooks up with. The master key is read when something is sealed or
 * opened, as no other command needs it. Hosts inside this network are those that the command itself names.
 */
export async function commandSetup(
  db: Db,
  { dataDir, masterKeyFile, outboundHosts, baseUrl }: CommandPlace,
  clock: Clock,
): Promise<{ upstreamSetup: UpstreamSetup; webhookSetup: WebhookSetup }> {
  const mayCreate = (await listSigningKeys(db)).length === 0;
  const file = masterKeyFile ?? join(dataDir, 'master.key');
  const masterKey = () => readMasterKey(file, { mayCreate });
  const sealing: Sealing = {
    seal: (purpose, plaintext) => masterKey().seal(purpose, plaintext),
    open: (purpose, sealed) => masterKey().open(purpose, sealed),
    mac: (purpose, text) => masterKey().mac(purpose, text),
  };
  const guard: OutboundGuard = {
    allowedHosts: outboundHosts,
    resolve: (host) => lookup(host, { all: true }),
  };
  const base = baseUrl === undefined ? undefined : checkBaseUrl(baseUrl);
  return {
    upstreamSetup: upstreamSetup({ base, sealing, guard }),
    webhookSetup: webhookSetup({ sealing, guard, clock }),
  };
}
