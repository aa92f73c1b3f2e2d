import { isObject, type JsonObject } from 'latchkey-mcp/json-value';
import { resolve } from 'node:path';
import { isPort, isReference, readIdentityProvider } from './identity-provider.ts';
import { readSecret, type Secret } from './secret.ts';

type Complain = (problem: string) => void;

/** The option of `latchkey add` for a field. Rare fields have none, so that the help fits on a screen. */
type FieldFlag = {
  name: string;
  /** The placeholder of the value in the help; none for a secret, which is prompted for. */
  value?: string;
  repeated?: boolean;
  doc: string;
  /** Returns the value for `read` from the given texts; by default, the first text. */
  of?: (texts: readonly string[]) => unknown;
};

/** A member of the `oauth` object, which desktop assistants and `LATCHKEY_OAUTH` use. */
type OAuthField<Value> = {
  /** Returns the value; `undefined` if it is absent or invalid. Calls `complain` if invalid, without the value itself. */
  read: (value: unknown, complain: Complain) => Value | undefined;
  /** Another name, which is read if the field's own is absent. */
  alias?: string;
  /** A description for the documentation: a phrase in lower case. */
  doc: string;
  flag?: FieldFlag;
  /** The environment variable that overrides it. */
  env?: string;
  /** Set if tokens, and so the keychain account, depend on the value. Tells how an absent value appears in the account: empty or not at all. */
  identity?: 'or empty' | 'or omitted';
  /** Sent under its name in authorization and token requests; not sent if empty. */
  isParameter?: true;
};

/** Infers the type of a field's value. */
const field = <Value>(declared: OAuthField<Value>): OAuthField<Value> => declared;

/**
 * Every member of the `oauth` object except `grant`; all are optional. Configuration files, the environment, `latchkey add`,
 * the names of tokens in the keychain and the documentation derive from this table. Its order is the order in files and, for
 * fields with an identity, in the names of keychain accounts: append such fields, never reorder them.
 */
const oauthFields = {
  clientId: field({
    read: text,
    doc: 'the ID of the OAuth client',
    flag: {
      name: 'client-id',
      value: 'ID',
      doc: 'the ID of the OAuth client; not needed if you sign in as a person',
    },
    env: 'LATCHKEY_CLIENT_ID',
    identity: 'or empty',
  }),
  clientSecret: field({
    read: secretText,
    doc: 'the client secret, if the client authenticates as itself; `"keychain"` if the secret is stored there',
    flag: {
      name: 'client-secret',
      doc: 'ask for the client secret, or read it from standard input',
    },
    env: 'LATCHKEY_CLIENT_SECRET',
  }),
  privateKeyFile: field({
    read: text,
    doc: 'a file with a private key (PEM) instead of a secret (`private_key_jwt`)',
    flag: {
      name: 'private-key-file',
      value: 'FILE',
      doc: 'a private key (PEM file) instead of a secret',
      of: ([file = '']) => resolve(file),
    },
  }),
  clientMetadataUrl: field({
    read: checkedText((url) => URL.parse(url)?.protocol === 'https:', 'is not an https URL'),
    doc: 'the https URL of a client metadata document, used as the client ID',
  }),
  redirectPort: field({
    read: port,
    doc: 'the port of the redirect URI, if the client was registered with a fixed one',
    flag: {
      name: 'redirect-port',
      value: 'PORT',
      doc: 'the port of the redirect URI, if the client was registered with a fixed one',
      of: ([number]) => Number(number),
    },
  }),
  redirectHost: field({
    read: checkedText(
      (host) => /^(localhost|127\.0\.0\.1)$/.test(host),
      'is neither localhost nor 127.0.0.1',
    ),
    doc: 'the host of the redirect URI, `localhost` or `127.0.0.1` (default)',
  }),
  redirectPath: field({
    read: checkedText(
      (path) => /^\/[\w./~-]*$/.test(path),
      'is not a path such as /oauth/callback',
    ),
    doc: 'the path of the redirect URI, `/callback` by default',
  }),
  resource: field({
    // An empty text is also a value: no parameter is sent.
    read: (value, complain) =>
      value === ''
        ? ''
        : checkedText((uri) => URL.canParse(uri), 'is not an absolute URI')(value, complain),
    doc: 'the `resource` parameter (RFC 8707), instead of the resource that the server announces; empty to send none',
    identity: 'or omitted',
    isParameter: true,
  }),
  authorizeParams: field({
    read: params,
    doc: 'an object with additional parameters of the authorization request',
  }),
  scopes: field({
    read: scopeList,
    alias: 'scope',
    doc: 'the scopes to request: a list, or one string',
    flag: {
      name: 'scope',
      value: 'SCOPE',
      repeated: true,
      doc: 'a scope to request; may be repeated',
      of: (texts) => texts,
    },
    env: 'LATCHKEY_SCOPES',
    identity: 'or empty',
  }),
  issuer: field({
    read: text,
    doc: 'accept this authorization server only',
    flag: { name: 'issuer', value: 'URL', doc: 'accept this authorization server only' },
    identity: 'or empty',
  }),
  identityProvider: field({
    read: readIdentityProvider,
    doc: 'the identity provider of your company, `"CLIENT_ID@ISSUER"`, for servers that accept [its sign-in](company-sign-in.md#one-sign-in-for-all-servers)',
    env: 'LATCHKEY_IDENTITY_PROVIDER',
  }),
  assertion: field({
    read: checkedText(isReference, 'is neither file:PATH nor env:NAME'),
    doc: 'where the platform of a workload puts its JWT, read again for each token: `file:PATH` or `env:NAME`',
    env: 'LATCHKEY_ASSERTION',
    identity: 'or omitted',
  }),
};

type OAuthFields = typeof oauthFields;
export type OAuthFieldName = keyof OAuthFields;

/** The values of an `oauth` object. */
export type OAuthSettings = {
  [Name in OAuthFieldName]?: NonNullable<ReturnType<OAuthFields[Name]['read']>>;
};

const fieldNames = Object.keys(oauthFields).filter((name): name is OAuthFieldName =>
  Object.hasOwn(oauthFields, name),
);

/** The fields in the order of the table. */
export const oauthFieldList = fieldNames.map((name): [OAuthFieldName, OAuthField<unknown>] => [
  name,
  oauthFields[name],
]);

/** Reads the fields of `values`, in the order of the table. Calls `complain` for each invalid value. */
export function readOAuthFields(
  values: JsonObject,
  complain: (name: string, problem: string) => void,
): OAuthSettings {
  const settings = oauthFieldList.flatMap(([own, { read, alias = own }]) => {
    const name = values[own] === undefined ? alias : own;
    const given = values[name];
    if (given === undefined || given === null) return [];
    const value: unknown = read(given, (problem) => complain(name, problem));
    return value === undefined ? [] : [[own, value]];
  });
  return Object.fromEntries(settings);
}

/** The values that distinguish tokens of these settings from others; `null` for an optional one that is absent. */
export function oauthIdentity(settings: OAuthSettings): {
  always: string[];
  optional: (string | null)[];
} {
  const always: string[] = [];
  const optional: (string | null)[] = [];
  for (const [name, { identity }] of oauthFieldList) {
    if (!identity) continue;
    const value = settings[name];
    const given = textOf(value);
    if (identity === 'or empty') always.push(given ?? '');
    else optional.push(given ?? null);
  }
  return { always, optional };
}

/** The parameters that these settings add to authorization and token requests, or replace in them. */
export function requestParameters(settings: OAuthSettings): Record<string, string> {
  const given = oauthFieldList.flatMap(([name, { isParameter }]) => {
    const value = isParameter && settings[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  return Object.fromEntries(given);
}

/** A value as one text, independent of the order of a list. */
function textOf(value: OAuthSettings[OAuthFieldName]): string | undefined {
  if (value === undefined || typeof value === 'string') return value;
  return Array.isArray(value) ? value.toSorted().join(' ') : JSON.stringify(value);
}

function text(value: unknown, complain: Complain): string | undefined {
  if (value === '') return undefined;
  if (typeof value === 'string') return value;
  complain('is not a string');
  return undefined;
}

function secretText(value: unknown, complain: Complain): Secret | undefined {
  const given = text(value, complain);
  return given === undefined ? undefined : readSecret(given);
}

function checkedText(isRight: (value: string) => boolean, problem: string) {
  return (value: unknown, complain: Complain): string | undefined => {
    const given = text(value, complain);
    if (given === undefined || isRight(given)) return given;
    complain(problem);
    return undefined;
  };
}

function port(value: unknown, complain: Complain): number | undefined {
  if (isPort(value)) return value;
  complain('is not a port between 1 and 65535');
  return undefined;
}

/** Parameters that the protocol itself sets. RFC 6749 §4.1.1, RFC 7636 §4.3 */
const ownParams =
  /^(client_id|redirect_uri|response_type|state|code_challenge(_method)?|scope|resource)$/;

function params(value: unknown, complain: Complain): Readonly<Record<string, string>> {
  const entries = isObject(value) ? Object.entries(value) : [['', undefined] as const];
  const right = entries.filter((entry): entry is [string, string] => {
    const isRight = entry[0] !== '' && typeof entry[1] === 'string' && !ownParams.test(entry[0]);
    if (!isRight) complain(`does not accept ${entry[0] || 'this'}`);
    return isRight;
  });
  return Object.fromEntries(right);
}

/** A list, or one string with spaces or commas. */
function scopeList(value: unknown, complain: Complain): string[] | undefined {
  if (typeof value === 'string') return value.split(/[\s,]+/).filter(Boolean);
  if (Array.isArray(value) && value.every((scope) => typeof scope === 'string')) return value;
  complain('is neither a list of scopes nor a string of them');
  return undefined;
}
