import { signsIn, type Account, type OAuthConnection } from '#auth/account';
import { accountStatus } from '#auth/account-status';
import { replaceCommand, type Connection } from '#config/connection';
import { connectingAssistant } from '#config/find-entry';
import type { FilesHost, Host } from '#host';
import { fail, ok, warn, type Check, type Finding } from './checks.ts';

export type StoredPorts = FilesHost &
  Pick<Host, 'clock'> & {
    account: (connection: OAuthConnection) => Promise<Account>;
    /** Whether the keychain has the key and headers that the configuration says are there. */
    hasSecrets: (connection: Connection) => Promise<boolean>;
    words: (error: unknown, connection?: Connection) => { message: string; hint: string };
  };

/** Whether this computer has what `connections` need. Contacts no server. */
export function storedCheck(connections: readonly Connection[], ports: StoredPorts): Check {
  return {
    name: 'secrets',
    async run() {
      const findings: Finding[] = [];
      /** The connections by the problem that they share, such as a key file that opens nothing. */
      const problems = new Map<string, { names: string[]; hint: string }>();
      for (const connection of connections)
        try {
          findings.push(await storedFinding(connection, ports));
        } catch (error) {
          const { message, hint } = ports.words(error, connection);
          const names = [...(problems.get(message)?.names ?? []), connection.name];
          problems.set(message, { names, hint });
        }
      for (const [message, { names, hint }] of problems)
        findings.push(fail('secrets', `${names.join(', ')}: ${message}`, hint));
      return findings;
    },
  };
}

async function storedFinding(connection: Connection, ports: StoredPorts): Promise<Finding> {
  const { name, configFile } = connection;
  const account = signsIn(connection) ? await ports.account(connection) : undefined;
  const complete = await ports.hasSecrets(connection);
  const now = ports.clock.now();
  const { state, as } = await accountStatus(connection, account, now, complete);
  if (!complete) {
    const hint = `store it with ${replaceCommand(connection)}`;
    return fail('secrets', `${name}: a secret is missing in the keychain`, hint);
  }
  if (state === 'ready')
    return ok('secrets', `${name}: ${as === 'person' ? 'signed in' : 'ready'}`);
  const assistant = await connectingAssistant(connection, ports);
  if (assistant !== undefined) return ok('secrets', `${name}: ${assistant} signs in itself`);
  const file = configFile === undefined ? '' : ` --config ${configFile}`;
  // A server may need no sign-in. Whether it does is known only after the first one.
  const worst = account?.marks.signedInBefore() ? fail : warn;
  return worst('secrets', `${name}: not signed in`, `latchkey login ${name}${file}`);
}
