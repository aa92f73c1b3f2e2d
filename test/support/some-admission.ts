import type { ServerRecord } from '#server/model/servers';
import { allScopes } from '#server/model/scopes';
import type { Admission } from '#server/gateway/admission';

export function someServer(but: Partial<ServerRecord> = {}): ServerRecord {
  return {
    id: 'srv_sales',
    organization: 'acme',
    name: 'sales',
    upstream: { kind: 'demo' },
    hiddenTools: [],
    changedTools: 'flag',
    withheldTools: [],
    createdAt: 1_700_000_000,
    ...but,
  };
}

/** A caller that was let in with every scope; `but` changes some of it. */
export function someAdmission(but: Partial<Admission> = {}): Admission {
  return {
    principal: 'key:key_a',
    credential: { type: 'key', id: 'key_a' },
    scopes: allScopes,
    server: someServer(),
    reference: 'key_a',
    scopesNow: () => Promise.resolve(allScopes),
    access: { name: 'key key_a', isActive: () => Promise.resolve(true) },
    ...but,
  };
}
