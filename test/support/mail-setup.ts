import { randomBytes } from 'node:crypto';

import { mailSetup, type MailSetup } from '#server/mail/mail-setup';
import type { Clock } from '#server/model/clock';
import { masterKey } from '#server/secrets/master-key';

const sealing = masterKey(randomBytes(32));

/** The settings of a mail server that does not listen. */
export const deadMailServer = {
  host: '127.0.0.1',
  port: 1,
  security: 'none',
  from: 'latchkey@example.com',
} as const;

/** The mail setup with a sealing key that the whole test file shares; it reaches mail servers only on loopback. */
export function loopbackMail(clock: Clock): MailSetup {
  return mailSetup({
    sealing,
    guard: {
      allowedHosts: ['127.0.0.1'],
      resolve: () => Promise.reject(new Error('no test resolves a name')),
    },
    clock,
    base: 'http://127.0.0.1:8787',
  });
}
