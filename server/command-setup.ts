import { lookup } from 'node:dns/promises';
import { join } from 'node:path';

import { readMasterKey } from '#signing/master-key';
import type { SigningKeyStore } from '#signing/signing-key';
import { upstreamSetup, type UpstreamSetup } from '#upstream-access/upstream-setup';

/**
 * What commands set the access to upstreams up with. The master key is read when something is sealed, as no other
 * command needs it. Hosts inside this network are those that the command itself names.
 */
export async function commandSetup(
  signingKeys: Pick<SigningKeyStore, 'list'>,
  { dataDir, masterKeyFile }: { dataDir: string; masterKeyFile: string | undefined },
): Promise<UpstreamSetup> {
  const mayCreate = (await signingKeys.list()).length === 0;
  const file = masterKeyFile ?? join(dataDir, 'master.key');
  return upstreamSetup({
    sealing: {
      seal: (purpose, plaintext) => readMasterKey(file, { mayCreate }).seal(purpose, plaintext),
    },
    guard: { allowedHosts: [], resolve: (host) => lookup(host, { all: true }) },
  });
}
