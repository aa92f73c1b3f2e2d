import { dropSecrets } from '#accounts/kept-secrets';
import { assistants } from '#config/assistants';
import type { Connection } from '#config/connection';
import { findDocuments } from '#config/find-entry';
import { isLaunch } from '#config/launch-entry';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { UsageError } from '#config/usage-error';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';
import { registered, setRegistered, sharesClient } from './registry.ts';
import { signsIn } from './sign-in-connection.ts';

/** `latchkey remove`: `false` when the server could not be told. */
export async function remove(input: CommandInput, machine: Machine): Promise<boolean> {
  const [name = ''] = input.operands;
  const { config: _, ...options } = machine.options(input.options);
  const connection = await registered(name, options, machine);
  if (!connection)
    throw new UsageError(
      `there is no connection ${name} in ${registryFile(machine)}`,
      'latchkey status shows which there are',
    );
  const notRevoked = await signedOut(connection, options, machine);
  await setRegistered(name, undefined, options, machine);
  const shared = await sharesClient(connection, options, machine);
  await dropSecrets(connection, shared, await machine.store(options));
  await machine.forgetKept(connection.url, options);
  const startedBy = await startingAssistants(name, machine);
  if (input.flags.has('json'))
    machine.say(JSON.stringify({ name, url: connection.url, revoked: !notRevoked, startedBy }));
  else machine.say(`${name} is forgotten, with its secrets`);
  if (notRevoked !== undefined) {
    machine.tell(`latchkey: the server was not told: ${notRevoked}`);
    machine.tell('hint: revoke the access there, under what your account has allowed');
  }
  for (const assistant of startedBy) machine.tell(`next: latchkey uninstall ${assistant} ${name}`);
  return notRevoked === undefined;
}

async function signedOut(
  connection: Connection,
  options: Options,
  machine: Machine,
): Promise<string | undefined> {
  if (!signsIn(connection)) return undefined;
  const account = await machine.account(connection, options);
  const [{ signOut }, { registeredClients }] = await Promise.all([
    import('#accounts/sign-out'),
    import('#accounts/registered-clients'),
  ]);
  const clients = registeredClients(account.store);
  const { notRevoked } = await signOut(connection, { ...account, clients });
  return notRevoked?.message;
}

/** The assistants whose own files start the connection. */
async function startingAssistants(name: string, machine: Machine): Promise<string[]> {
  const found: string[] = [];
  for (const [assistant, { file, servers }] of Object.entries(assistants)) {
    const documents = await findDocuments([file(machine)], (path) => machine.readText(path));
    const entries = documents.flatMap((document) => Object.values(membersOf(document, servers)));
    if (entries.some((entry) => isLaunch(entry, name))) found.push(assistant);
  }
  return found;
}

function membersOf(document: unknown, name: string): object {
  const members = typeof document === 'object' && document !== null ? document : {};
  const found: unknown = Object.entries(members).find(([key]) => key === name)?.[1];
  return typeof found === 'object' && found !== null ? found : {};
}
