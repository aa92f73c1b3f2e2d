// Handles a server that is withdrawn: the person lost their access, or it was deleted. Its entries are removed from the files of
// assistants, but only if the Latchkey server, asked with the person's sign-in, lists exactly this server as withdrawn. An error, an
// empty list or a server that is missing in a list proves nothing.
import { OAuthError, TokenError } from '#auth/errors';
import { assistantFile, assistants } from '#config/assistants';
import { ConfigurationError, UsageError } from '#config/errors';
import type { Options } from '#config/options';
import type { WithdrawnServer } from './accounts-service.ts';
import { bindHost, type BoundHost, type ConnectionsHost } from './connections-host.ts';
import { withdrawLaunch } from './install.ts';
import { readServers, storedListOf } from './my-servers.ts';
import { registeredFor } from './registry.ts';

/** Takes withdrawn servers out of the files of assistants. `urls`: the servers that the Latchkey server lists as withdrawn. */
export async function takeOut(
  urls: readonly string[],
  host: BoundHost,
): Promise<WithdrawnServer[]> {
  const done: WithdrawnServer[] = [];
  for (const url of urls) {
    const connection = await registeredFor(url, undefined, host);
    // A connection with a key of its own does not depend on the list.
    if (connection?.credentials.kind !== 'authorization_code') continue;
    done.push({
      name: connection.name,
      url,
      ...(await removeEntries(connection.name, host)),
    });
  }
  return done;
}

async function removeEntries(
  name: string,
  host: BoundHost,
): Promise<Pick<WithdrawnServer, 'removed' | 'problems'>> {
  const removed: WithdrawnServer['removed'][number][] = [];
  const problems: string[] = [];
  for (const assistant of Object.keys(assistants)) {
    const target = assistantFile(assistant, undefined, host);
    const { title, file } = target;
    try {
      const backup = await withdrawLaunch(name, target, host);
      if (backup !== undefined) removed.push({ assistant, title, file, backup });
    } catch (error) {
      if (!(error instanceof UsageError || error instanceof ConfigurationError)) throw error;
      problems.push(error.message);
    }
  }
  return { removed, problems };
}

/**
 * Asks whether a server is withdrawn, and takes it out if so. For a connection that has lost its sign-in.
 *
 * @returns `undefined` if it is not withdrawn, or if that is unknown
 */
export async function takeOutIfWithdrawn(
  url: string,
  options: Options,
  unbound: ConnectionsHost,
): Promise<WithdrawnServer | undefined> {
  const host = bindHost(unbound, options);
  const list = await storedListOf(url, host);
  if (list === undefined) return undefined;
  try {
    const { withdrawn } = await readServers(list, host);
    if (!withdrawn.includes(url)) return undefined;
  } catch (error) {
    if (error instanceof OAuthError || error instanceof TokenError) return undefined;
    throw error;
  }
  const [one] = await takeOut([url], host);
  return one;
}

/** The message for the person. */
export function withdrawnWords({ name, removed }: WithdrawnServer): string {
  const from = new Intl.ListFormat('en-GB').format(removed.map(({ title }) => title));
  const done = from === '' ? '' : `; it was removed from ${from}`;
  return `you no longer have access to ${name}${done}`;
}
