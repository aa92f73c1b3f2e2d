import type { Account } from './account.ts';
import { registeredClients } from './registered-clients.ts';
import { signOut, type SignedOut } from './sign-out.ts';

/** Signs out, and forgets with the tokens what the server answered to whoever had signed in. */
export async function signOutConnection(account: Account): Promise<SignedOut> {
  const clients = registeredClients(account.store);
  const signedOut = await signOut(account.connection, { ...account, clients });
  await account.marks.forgetListed();
  await account.forgetKept();
  return signedOut;
}
