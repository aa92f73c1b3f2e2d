import { insertProvider, type ProviderRecord } from '#server/db/identity-providers';
import type { Db } from '#server/db/transaction';
import { usualChecking } from '#server/model/provider-checks';

/** All members of a provider that are stored when it is added. */
type SomeProvider = Omit<ProviderRecord, 'tested' | 'announcedAt' | 'disabledAt'>;

/** An identity provider of `org_acme` that no test reaches; `but` changes some members. */
export function someProvider(but: Partial<SomeProvider> = {}): SomeProvider {
  return {
    id: 'idp_acme',
    organizationId: 'org_acme',
    name: 'Acme ID',
    issuer: 'https://id.example',
    clientId: 'latchkey',
    sealedSecret: 'sealed',
    scopes: [],
    groupsClaim: 'groups',
    emailTrusted: false,
    joiningRole: undefined,
    joiningGroups: [],
    roleGroups: [],
    countsAsTwoFactors: false,
    keysUrl: undefined,
    nativeClientId: undefined,
    assertionsAllowed: false,
    assertionClients: [],
    assertionServers: [],
    ...usualChecking,
    createdAt: 1,
    ...but,
  };
}

/** The record of a provider once it is stored. */
export function storedProvider(provider: SomeProvider): ProviderRecord {
  return { ...provider, tested: undefined, announcedAt: undefined, disabledAt: undefined };
}

/** Stores `someProvider`. */
export async function insertSomeProvider(
  db: Db,
  but: Partial<SomeProvider> = {},
): Promise<SomeProvider> {
  const provider = someProvider(but);
  await insertProvider(db, provider, 1000);
  return provider;
}
