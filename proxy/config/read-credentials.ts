import { isObject, type JsonObject } from 'latchkey-mcp/json-value';
import type { Problem } from './errors.ts';
import type { Credentials } from './connection.ts';
import { readOAuthFields } from './oauth-fields.ts';
import { readSecret } from './secret.ts';

/** The settings for a credential, not validated. */
export type CredentialTexts = {
  oauth?: unknown;
  /** Where `oauth` was read, for messages. */
  at: { source: string; key: string };
  apiKey?: unknown;
  /** Overrides the secret in `oauth`. */
  clientSecret?: string;
};

/** Nothing is configured: the server decides whether a person has to sign in. */
const noCredentials: Credentials = { kind: 'authorization_code' };

/** Reads how to authenticate. Everything invalid is added to `problems`, never with the value itself. */
export function readCredentials(
  { oauth, at, apiKey, clientSecret }: CredentialTexts,
  problems: Problem[],
): Credentials {
  const complain = (name: string, problem: string) =>
    problems.push({ source: at.source, key: [at.key, name].filter(Boolean).join('.'), problem });
  if (apiKey !== undefined) {
    if (typeof apiKey === 'string' && /^[\x21-\x7e]+$/.test(apiKey))
      return { kind: 'api_key', apiKeySecret: readSecret(apiKey) };
    problems.push({
      source: at.source,
      key: 'apiKey',
      problem: 'is not an API key; expected mcp_…',
    });
    return noCredentials;
  }
  if (oauth === undefined && clientSecret === undefined) return noCredentials;
  if (oauth !== undefined && !isObject(oauth)) {
    complain('', 'is not an object with clientId, clientSecret and scopes');
    return noCredentials;
  }
  const values: JsonObject = { ...oauth, ...(clientSecret !== undefined && { clientSecret }) };
  const settings = readOAuthFields(values, complain);
  const { clientId, clientSecret: secret, privateKeyFile, assertion, identityProvider } = settings;
  const proof = secret ?? privateKeyFile ?? assertion;
  const isOwn = proof !== undefined && identityProvider === undefined;
  const grant = values['grant'] || (isOwn ? 'client_credentials' : 'authorization_code');
  if (grant !== 'client_credentials' && grant !== 'authorization_code')
    complain('grant', 'must be client_credentials or authorization_code');
  if (grant === 'client_credentials' && proof === undefined)
    complain('clientSecret', 'is missing; set it here or in LATCHKEY_CLIENT_SECRET');
  if (clientId === undefined && grant === 'client_credentials' && assertion === undefined)
    complain('clientId', 'is missing; the dashboard shows it as client_…');
  if (secret !== undefined && privateKeyFile !== undefined)
    complain('privateKeyFile', 'and clientSecret cannot be combined; remove one');
  if (assertion !== undefined && (secret ?? privateKeyFile) !== undefined)
    complain('assertion', 'replaces clientSecret and privateKeyFile; remove those');
  if (assertion !== undefined && grant === 'authorization_code')
    complain('assertion', 'is for a workload, which no person signs in to; remove grant');
  return grant === 'client_credentials'
    ? { kind: grant, ...settings }
    : { kind: 'authorization_code', ...settings };
}
