import type { SecretStore } from '#keychain/secret-store';
import type { RegisteredClient } from './register-client.ts';

/** The clients that authorization servers made for us, one an issuer, in the secret store. */
export interface RegisteredClients {
  of(issuer: string): Promise<RegisteredClient | undefined>;
  keep(client: RegisteredClient): Promise<void>;
}

export function registeredClients(store: SecretStore): RegisteredClients {
  const account = (issuer: string) => `oauth client ${issuer.slice(0, 380)}`;
  return {
    async of(issuer) {
      const client = parse(await store.get(account(issuer)));
      return client?.issuer === issuer ? client : undefined;
    },
    keep: (client) => store.set(account(client.issuer), JSON.stringify(client)),
  };
}

function parse(text: string | undefined): RegisteredClient | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(text ?? 'null');
    const { clientId, clientSecret, authMethod, issuer, redirectUri } = value ?? {};
    if (typeof clientId !== 'string' || typeof issuer !== 'string') return undefined;
    if (typeof redirectUri !== 'string') return undefined;
    return {
      clientId,
      issuer,
      redirectUri,
      ...(typeof clientSecret === 'string' && { clientSecret }),
      ...(typeof authMethod === 'string' && { authMethod }),
    };
  } catch {
    return undefined;
  }
}
