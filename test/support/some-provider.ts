import type { ProviderRecord } from '#server/db/identity-providers';

type NewProvider = Omit<ProviderRecord, 'tested' | 'disabledAt'>;

/** The identity provider of acme, which is trusted with nothing but sign-ins; `but` changes some of it. */
export function someProvider(but: Partial<NewProvider> = {}): NewProvider {
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
    assertionsAllowed: false,
    assertionClients: [],
    assertionServers: [],
    createdAt: 1,
    ...but,
  };
}
