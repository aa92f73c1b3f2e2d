import type { Problem } from './configuration-error.ts';
import type { Credentials } from './connection.ts';

type Json = Record<string, unknown>;

/** Raw values and where each comes from. */
export type CredentialTexts = {
  oauth?: unknown;
  /** Where `oauth` stands, for messages. */
  at: { source: string; key: string };
  apiKey?: unknown;
  /** Overrides the secret inside `oauth`. */
  clientSecret?: string;
};

/** How to prove who we are. Everything wrong goes into `problems`, never with the value itself. */
export function readCredentials(
  { oauth, at, apiKey, clientSecret }: CredentialTexts,
  problems: Problem[],
): Credentials {
  const complain = (name: string, problem: string) =>
    problems.push({ source: at.source, key: [at.key, name].filter(Boolean).join('.'), problem });
  if (apiKey !== undefined) {
    if (typeof apiKey === 'string' && /^[\x21-\x7e]+$/.test(apiKey))
      return { kind: 'api_key', apiKeySecret: apiKey };
    problems.push({
      source: at.source,
      key: 'apiKey',
      problem: 'is not an API key; expected mcp_…',
    });
    return { kind: 'none' };
  }
  if (oauth === undefined && clientSecret === undefined) return { kind: 'none' };
  if (oauth !== undefined && !isObject(oauth)) {
    complain('', 'is not an object with clientId, clientSecret and scopes');
    return { kind: 'none' };
  }
  const values: Json = { ...oauth, ...(clientSecret !== undefined && { clientSecret }) };
  const text = (name: string): string | undefined => {
    const value = values[name];
    if (value === undefined || value === null || value === '') return undefined;
    if (typeof value === 'string') return value;
    complain(name, 'is not a string');
    return undefined;
  };
  const clientId = text('clientId');
  const secret = text('clientSecret');
  const issuer = text('issuer');
  const grant =
    text('grant') ?? (secret === undefined ? 'authorization_code' : 'client_credentials');
  const scopes = readScopes(values, complain);
  if (text('privateKeyFile') !== undefined)
    complain('privateKeyFile', 'is not supported yet; use clientSecret');
  else if (grant === 'authorization_code')
    complain(
      values['grant'] === undefined ? 'clientSecret' : 'grant',
      'signing in with the browser is not supported yet; give a clientSecret or LATCHKEY_CLIENT_SECRET',
    );
  else if (grant !== 'client_credentials')
    complain('grant', 'is neither client_credentials nor authorization_code');
  else if (secret === undefined)
    complain('clientSecret', 'is missing; set it here or in LATCHKEY_CLIENT_SECRET');
  else if (secret === 'keychain')
    complain('clientSecret', 'a secret kept in the keychain is not supported yet');
  if (clientId === undefined && grant === 'client_credentials')
    complain('clientId', 'is missing; the dashboard shows it as client_…');
  return {
    kind: 'client_credentials',
    clientId: clientId ?? '',
    clientSecret: secret ?? '',
    ...(scopes && { scopes }),
    ...(issuer !== undefined && { issuer }),
  };
}

/** A list, or one string with spaces or commas; `scope` is taken for the same. */
function readScopes(
  values: Json,
  complain: (name: string, problem: string) => void,
): string[] | undefined {
  const name = values['scopes'] === undefined ? 'scope' : 'scopes';
  const value = values[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value.split(/[\s,]+/).filter(Boolean);
  if (Array.isArray(value) && value.every((scope) => typeof scope === 'string')) return value;
  complain(name, 'is neither a list of scopes nor a string of them');
  return undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
