import type { Account } from '#auth/account';
import { signOutConnection } from '#auth/sign-out-connection';

/** `latchkey logout`: what could not be taken back at the server is said, and the exit code is 1. */
export async function logout(
  account: Account,
  terminal: { say: (line: string) => void; tell: (line: string) => void },
): Promise<boolean> {
  const { connection } = account;
  const { wasSignedIn, notRevoked } = await signOutConnection(account);
  if (!wasSignedIn) terminal.say(`nobody was signed in to ${connection.name}`);
  else if (!notRevoked)
    terminal.say(`signed out of ${connection.name}: revoked at the server, forgotten here`);
  else {
    terminal.say(`signed out of ${connection.name} on this machine`);
    terminal.tell(`latchkey: the server was not told: ${notRevoked.message}`);
    terminal.tell('hint: revoke the access there, under what your account has allowed');
  }
  return notRevoked === undefined;
}
