import { insertAuditEvent } from '#server/db/audit';
import type { Clock } from '#server/model/clock';
import type { Db } from '#server/db/transaction';
import { AssertionLedger } from '#server/oauth/assertions';
import type { AssertionPorts } from '#server/oauth/identity-assertion-grant';
import { issuerKeys } from '#server/oauth/issuer-keys';
import { loopbackProviders, type TxtRecords } from './provider-setup.ts';

/** The ports of assertion grants. They read issuer keys only from loopback, DNS records only from `records`, and no client documents. */
export function assertionPorts(
  clock: Clock,
  db: Db,
  records: TxtRecords = new Map(),
): Omit<AssertionPorts, 'admissions'> {
  const guard = {
    allowedHosts: ['127.0.0.1'],
    resolve: () => Promise.reject(new Error('no test resolves a name')),
  };
  return {
    issuerKeys: issuerKeys({ guard, clock }),
    ledger: new AssertionLedger({ db, clock }),
    refusals: {
      noteLater: (refusal) =>
        void insertAuditEvent(db, { ...refusal, at: clock.now(), outcome: 'refused' }),
    },
    providerSetup: loopbackProviders(clock, records),
    resolveClient: () => Promise.reject(new Error('no test reads a document')),
  };
}
