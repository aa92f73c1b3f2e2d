import { ConfigurationError, type Problem } from '#config/configuration-error';
import { pastedEntry } from '#config/pasted-entry';
import { readCredentials } from '#config/read-credentials';
import type { Pasted } from './accounts-door.ts';

/**
 * What a pasted text says of a connection; never the secret itself.
 *
 * @throws {UsageError} {@link ConfigurationError}
 */
export function readPasted(text: string): Pasted {
  const { name, url, oauth, apiKey } = pastedEntry(text);
  const problems: Problem[] = [];
  const at = { source: 'the pasted text', key: '' };
  const credentials = readCredentials(
    apiKey === undefined ? { at, ...(oauth !== undefined && { oauth }) } : { at, apiKey },
    problems,
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
  const found = { ...(name !== undefined && { name }), ...(url !== undefined && { url }) };
  if (credentials.kind === 'api_key') return { ...found, as: 'api_key' };
  const { kind, clientId, scopes } = credentials;
  return {
    ...found,
    as: kind === 'client_credentials' ? 'client' : 'person',
    ...(clientId !== undefined && { clientId }),
    ...(scopes && { scopes }),
  };
}
