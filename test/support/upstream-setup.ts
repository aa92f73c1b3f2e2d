import { randomBytes } from 'node:crypto';

import { masterKey } from '#server/secrets/master-key';
import { upstreamSetup, type UpstreamSetup } from '#server/upstreams/credentials/setup';

/** The upstream setup with a sealing key of its own; it reaches servers only on loopback. */
export function loopbackSetup(): UpstreamSetup {
  return upstreamSetup({
    base: 'http://127.0.0.1:8787',
    sealing: masterKey(randomBytes(32)),
    guard: {
      allowedHosts: ['127.0.0.1'],
      resolve: () => Promise.reject(new Error('no test resolves a name')),
    },
  });
}
