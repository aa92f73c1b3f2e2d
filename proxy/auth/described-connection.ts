import { ConfigurationError, type Problem } from '#config/configuration-error';
import type { Connection } from '#config/connection';
import { pastedEntry } from '#config/pasted-entry';
import { readCredentials } from '#config/read-credentials';
import { registryFile } from '#config/registry-file';
import { webUrl } from '#transport/web-url';
import type { AddInput } from './accounts-door.ts';
import type { ConnectionSecrets } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';

/**
 * The connection that somebody described, with its secrets beside.
 *
 * @throws {ConfigurationError} with all that is wrong, never with a value
 */
export function describedConnection(
  input: AddInput,
  host: AccountsHost,
): { connection: Connection; secrets: ConnectionSecrets } {
  const { name, url } = input;
  const problems: Problem[] = [];
  const source = registryFile(host);
  if (!webUrl(url)) {
    const problem = 'must be https, or http on this machine, without user or password';
    problems.push({ source, key: 'URL', problem });
  }
  const credentials = readCredentials(
    { ...credentialTexts(input), at: { source, key: name } },
    problems,
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
  const connection = { name, url, source, account: name, credentials };
  if (credentials.kind === 'api_key')
    return { connection, secrets: { apiKeySecret: credentials.apiKeySecret } };
  const { clientSecret } = credentials;
  return { connection, secrets: { ...(clientSecret !== undefined && { clientSecret }) } };
}

function credentialTexts(input: AddInput): { oauth?: unknown; apiKey?: unknown } {
  switch (input.as) {
    case 'person': {
      const { clientId, scopes } = input;
      if (clientId === undefined && scopes === undefined) return {};
      return { oauth: { clientId, scopes, grant: 'authorization_code' } };
    }
    case 'client': {
      const { clientId, clientSecret, scopes } = input;
      return { oauth: { clientId, clientSecret, scopes } };
    }
    case 'api_key':
      return { apiKey: input.apiKeySecret };
    case 'pasted': {
      const { oauth, apiKey } = pastedEntry(input.oauthText);
      return apiKey === undefined ? { ...(oauth !== undefined && { oauth }) } : { apiKey };
    }
  }
}
