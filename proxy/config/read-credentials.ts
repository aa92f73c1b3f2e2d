import type { Problem } from './errors.ts';
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

/** Nothing is configured: the server says whether a person has to sign in. */
const nobody: Credentials = { kind: 'authorization_code' };

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
    return nobody;
  }
  if (oauth === undefined && clientSecret === undefined) return nobody;
  if (oauth !== undefined && !isObject(oauth)) {
    complain('', 'is not an object with clientId, clientSecret and scopes');
    return nobody;
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
  const privateKeyFile = text('privateKeyFile');
  const issuer = text('issuer');
  const clientMetadataUrl = text('clientMetadataUrl');
  const redirectHost = text('redirectHost');
  const redirectPath = text('redirectPath');
  const authorizeParams = readParams(values['authorizeParams'], complain);
  // Empty is a word too: none is to be sent.
  const resource = values['resource'] === '' ? '' : text('resource');
  const redirectPort = values['redirectPort'] ?? undefined;
  const grant =
    text('grant') ?? ((secret ?? privateKeyFile) ? 'client_credentials' : 'authorization_code');
  const scopes = readScopes(values, complain);
  if (grant !== 'client_credentials' && grant !== 'authorization_code')
    complain('grant', 'is neither client_credentials nor authorization_code');
  if (grant === 'client_credentials' && secret === undefined && privateKeyFile === undefined)
    complain('clientSecret', 'is missing; set it here or in LATCHKEY_CLIENT_SECRET');
  if (clientId === undefined && grant === 'client_credentials')
    complain('clientId', 'is missing; the dashboard shows it as client_…');
  if (secret !== undefined && privateKeyFile !== undefined)
    complain('privateKeyFile', 'and clientSecret exclude each other; remove one');
  if (clientMetadataUrl !== undefined && URL.parse(clientMetadataUrl)?.protocol !== 'https:')
    complain('clientMetadataUrl', 'is not an https URL');
  if (redirectPort !== undefined && !isPort(redirectPort))
    complain('redirectPort', 'is not a port between 1 and 65535');
  if (redirectHost !== undefined && !/^(localhost|127\.0\.0\.1)$/.test(redirectHost))
    complain('redirectHost', 'is neither localhost nor 127.0.0.1');
  if (redirectPath !== undefined && !/^\/[\w./~-]*$/.test(redirectPath))
    complain('redirectPath', 'is not a path such as /oauth/callback');
  if (resource && !URL.canParse(resource)) complain('resource', 'is not an absolute URI');
  const settings = {
    ...(secret !== undefined && { clientSecret: secret }),
    ...(privateKeyFile !== undefined && { privateKeyFile }),
    ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
    ...(isPort(redirectPort) && { redirectPort }),
    ...(redirectHost !== undefined && { redirectHost }),
    ...(redirectPath !== undefined && { redirectPath }),
    ...(resource !== undefined && { resource }),
    ...(authorizeParams && { authorizeParams }),
    ...(scopes && { scopes }),
    ...(issuer !== undefined && { issuer }),
  };
  if (grant === 'client_credentials') return { kind: grant, clientId: clientId ?? '', ...settings };
  return { kind: 'authorization_code', ...(clientId !== undefined && { clientId }), ...settings };
}

/** The protocol's own parameters are not for anybody to choose. RFC 6749 §4.1.1, RFC 7636 §4.3 */
const ownParams =
  /^(client_id|redirect_uri|response_type|state|code_challenge(_method)?|scope|resource)$/;

function readParams(
  value: unknown,
  complain: (name: string, problem: string) => void,
): Record<string, string> | undefined {
  if (value === undefined || value === null) return undefined;
  const entries = isObject(value) ? Object.entries(value) : [['', undefined] as const];
  const params = entries.filter((entry): entry is [string, string] => {
    const fine = typeof entry[1] === 'string' && !ownParams.test(entry[0]);
    if (!fine) complain('authorizeParams', `does not take ${entry[0] || 'this'}`);
    return fine;
  });
  return Object.fromEntries(params);
}

function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65_536;
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
