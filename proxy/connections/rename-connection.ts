import { startingAssistants } from './assistant-views.ts';
import { priorAccount } from '#keychain/secret-accounts';
import type { Connection } from '#config/connection';
import { UsageError } from '#config/errors';
import { renameLaunches, type RenamedLaunch } from './rename-launches.ts';
import { signsIn } from '#auth/account';
import type { BoundHost } from './connections-host.ts';
import {
  forgetSecrets,
  orphanedSecrets,
  ownAccounts,
  cleanUpSecrets,
  emptyAccounts,
  withoutCleanup,
} from './orphaned-secrets.ts';
import {
  checkName,
  checkUnambiguous,
  registered,
  renameRegistered,
  unknownName,
} from './registry.ts';
import { secretMarks } from './secret-trial.ts';
import { storedAccounts } from './stored-secrets.ts';

/** `launches`: the assistants that started it by the old name. */
export type RenamedConnection = { url: string; launches: RenamedLaunch[] };

/**
 * Renames one of our own connections: copies its secrets, tokens and marks to the accounts of the new name, changes the entry
 * in one step, and then deletes the old secrets and changes the files of assistants. After a crash the connection has either
 * the old or the new name, and repeating the rename completes the files of assistants.
 *
 * @throws {UsageError} if there is no such connection, or the new name is taken
 */
export async function renameConnection(
  from: string,
  to: string,
  host: BoundHost,
): Promise<RenamedConnection> {
  await cleanUpSecrets(host);
  const url = await withoutCleanup(host, async () => {
    const before = await registered(from, host);
    if (!before) return interruptedRename(from, to, host);
    checkName(to);
    await checkUnambiguous(to, before.url, host);
    const taken = await registered(to, host);
    if (taken)
      throw new UsageError(`${to} already exists, for ${taken.url}`, 'choose another name');
    await move(before, to, host);
    return before.url;
  });
  await host.forgetCached(url);
  return { url, launches: await renameLaunches(from, to, host) };
}

/** The URL of a connection that already has the new name, while assistants still start it by the old one. */
async function interruptedRename(from: string, to: string, host: BoundHost): Promise<string> {
  const done = await registered(to, host);
  if (done && (await startingAssistants(from, host)).length > 0) return done.url;
  throw await unknownName(from, host);
}

async function move(before: Connection, to: string, host: BoundHost): Promise<void> {
  // If the account is not named after the connection, its secrets stay where they are.
  const account = before.account === before.name ? to : before.account;
  const after: Connection = { ...before, name: to, ...(account !== undefined && { account }) };
  const entry = { name: to, account };
  if (account === before.account) return renameRegistered(before.name, entry, host);

  const orphaned = orphanedSecrets(host.options, host);
  const fresh = await emptyAccounts(after, host);
  const noted = [...fresh, ...(await ownAccounts(before, host))].map((one) => ({
    account: one,
    file: before.source,
  }));
  await orphaned.note(noted);
  await copySecrets(before, after, host);
  await withoutRenewal(before, host, async () => {
    await copyTokens(before, after, host);
    await renameRegistered(before.name, entry, host);
    // A refresh token that two accounts hold would be revoked as stolen.
    if (signsIn(before)) await (await host.account(before)).vault.clear();
  });
  const unknown = await forgetSecrets(before, host, after);
  await orphaned.settled(noted.filter((one) => !unknown.includes(one.account)));
}

/** Copies keys, headers and client secrets, with the state of a rotation and when they were stored. */
async function copySecrets(before: Connection, after: Connection, host: BoundHost): Promise<void> {
  const store = await host.store();
  const targets = storedAccounts(after);
  for (const [at, source] of storedAccounts(before).entries()) {
    const target = targets[at] ?? source;
    if (target === source) continue;
    const secret = await store.get(source);
    const prior = await store.get(priorAccount(source));
    if (prior === undefined) await store.remove(priorAccount(target));
    else await store.set(priorAccount(target), prior);
    if (secret !== undefined) await store.set(target, secret);
    const [marks, copied] = [source, target].map((one) => secretMarks(one, host.stateDirectory));
    const storedAt = await marks?.storedAt();
    const trialAtMs = await marks?.trialAtMs();
    if (storedAt !== undefined) await copied?.stored(storedAt);
    if (trialAtMs === undefined) await copied?.settled();
    else await copied?.trial(trialAtMs);
  }
}

/** Runs `work` while no process renews the tokens of the connection. */
async function withoutRenewal(
  connection: Connection,
  host: BoundHost,
  work: () => Promise<void>,
): Promise<void> {
  if (!signsIn(connection)) return work();
  const { lock, vault } = await host.account(connection);
  return lock.hold(vault.account, work);
}

async function copyTokens(before: Connection, after: Connection, host: BoundHost): Promise<void> {
  if (!signsIn(before) || !signsIn(after)) return;
  const [source, target] = await Promise.all([host.account(before), host.account(after)]);
  const access = await source.vault.access();
  const refresh = access && (await source.vault.refresh(access.issuer));
  if (access) await target.vault.save({ ...access, ...(refresh && { refresh }) });
  if (source.marks.signedInBefore()) await target.marks.rememberSignedIn();
  const wanted = await source.marks.wantedScopes();
  if (wanted.length > 0) await target.marks.wantScopes(wanted);
}
