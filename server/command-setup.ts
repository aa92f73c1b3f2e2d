import { lookup } from 'node:dns/promises';
import { join } from 'node:path';

import { checkBaseUrl } from '#config/base-url';
import { readMasterKey } from '#signing/master-key';
import type { SigningKeyStore } from '#signing/signing-key';
import { upstreamSetup, type UpstreamSetup } from '#upstream-access/upstream-setup';

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
 * What commands set the access to upstreams up with. The master key is read when something is sealed, as no other
 * command needs it. Hosts inside this network are those that the command itself names.
 */
export async function commandSetup(
  signingKeys: Pick<SigningKeyStore, 'list'>,
  { dataDir, masterKeyFile, outboundHosts, baseUrl }: CommandPlace,
): Promise<UpstreamSetup> {
  const mayCreate = (await signingKeys.list()).length === 0;
  const file = masterKeyFile ?? join(dataDir, 'master.key');
  return upstreamSetup({
    base: baseUrl === undefined ? undefined : checkBaseUrl(baseUrl),
    sealing: {
      seal: (purpose, plaintext) => readMasterKey(file, { mayCreate }).seal(purpose, plaintext),
    },
    guard: { allowedHosts: outboundHosts, resolve: (host) => lookup(host, { all: true }) },
  });
}
