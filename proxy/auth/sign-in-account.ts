import type { Known } from './stored-token-source.ts';
import type { TokenRecord } from './token-record.ts';
import type { Granted } from './token-vault.ts';
import type { Account } from './account.ts';
import { clientGrant } from './client-grant.ts';
import { registeredClients } from './registered-clients.ts';
import { signIn, type ShowPage } from './sign-in.ts';

/** People look for passwords and second factors, but not all day. */
const timeoutMs = 10 * 60_000;

export type SignInAccountOptions = {
  show: ShowPage;
  signal: AbortSignal;
  known?: Known;
  /** The user's word that another issuer than before is right. */
  rebind?: boolean;
};

/** Signs in to a connection, as a person or as the client itself; the token is stored then. */
export async function signInAccount(
  account: Account,
  { show, signal, known = { wider: false }, rebind = false }: SignInAccountOptions,
): Promise<TokenRecord> {
  const { connection, vault, lock, marks, store } = account;
  const { url, credentials } = connection;
  if (credentials.kind === 'client_credentials')
    return lock.hold(vault.account, async () =>
      vault.save(await clientGrant({ url, credentials }, { wider: false }, account, rebind)),
    );
  const save = async (granted: Granted) => {
    const record = await lock.hold(vault.account, async () => vault.save(granted));
    await marks.rememberSignedIn();
    return record;
  };
  const { challenge, wider } = known;
  const previous = known.previous ?? (await vault.access());
  return signIn(
    {
      url,
      credentials,
      challenge,
      previous,
      wider,
      more: await marks.wantedScopes(),
      rebind,
      timeoutMs,
      signal,
    },
    { ...account, clients: registeredClients(store), show, save },
  );
}
