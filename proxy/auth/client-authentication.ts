import { parseObject } from 'latchkey-mcp/json-value';
import { clientSecretAccount } from '#keychain/secret-accounts';
import { createPrivateKey, randomUUID, sign, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { EpochSeconds } from '#clock/clock';
import type { OAuthSettings } from '#config/oauth-fields';
import { isInKeychain } from '#config/secret';
import type { SecretStore } from '#keychain/secret-store';
import type { AuthorizationServer } from './discovery.ts';
import { OAuthError } from './errors.ts';

/** A client: its id, and how it authenticates. Its secret is sent only to the authorization server that it is for. */
export type OAuthClient = {
  clientId: string;
  clientSecret?: string;
  /** For `private_key_jwt`. Read on demand. */
  privateKey?: () => Promise<KeyObject>;
  /** The method that the registration returned. RFC 7591 §2 */
  authMethod?: string;
};

export type ReadPrivateKey = NonNullable<OAuthClient['privateKey']>;

export type ConfiguredClientPorts = {
  store: SecretStore;
  /** Reads a PEM file, with the passphrase from the environment. */
  readPrivateKey: (path: string) => ReturnType<ReadPrivateKey>;
};

/** A client, and the issuer that its stored secret is bound to. */
export type ConfiguredClient = OAuthClient & { boundIssuer?: string };

/**
 * The configured client; `undefined` if none is configured. A secret in the keychain is stored for exactly this URL.
 *
 * @throws {OAuthError} `client` if the keychain has no such secret
 */
export async function configuredClient(
  url: string,
  { clientId, clientSecret, privateKeyFile }: OAuthSettings,
  { store, readPrivateKey }: ConfiguredClientPorts,
): Promise<ConfiguredClient | undefined> {
  if (clientId === undefined) return undefined;
  if (privateKeyFile !== undefined)
    return { clientId, privateKey: async () => readPrivateKey(privateKeyFile) };
  if (clientSecret === undefined) return { clientId };
  if (!isInKeychain(clientSecret)) return { clientId, clientSecret };
  const stored = parseStoredSecret(await store.get(clientSecretAccount(url, clientId)));
  if (stored) return { clientId, ...stored };
  throw new OAuthError(
    'client',
    `client secret of ${clientId} for ${url} not found in the keychain`,
    {
      endpoint: url,
    },
  );
}

/** Binds a stored secret to the issuer that it was sent to. Afterwards, only the user can allow another issuer. */
export async function bindSecret(
  url: string,
  { clientId, clientSecret, boundIssuer }: ConfiguredClient,
  issuer: string,
  store: SecretStore,
): Promise<void> {
  if (boundIssuer === issuer) return;
  // Another process may have replaced the secret in the meantime. The new one must not be overwritten.
  const stored = parseStoredSecret(await store.get(clientSecretAccount(url, clientId)));
  if (stored?.clientSecret !== clientSecret) return;
  await store.set(clientSecretAccount(url, clientId), JSON.stringify({ clientSecret, issuer }));
}

function parseStoredSecret(
  text: string | undefined,
): { clientSecret: string; boundIssuer?: string } | undefined {
  const { clientSecret, issuer } = parseObject(text) ?? {};
  if (typeof clientSecret !== 'string') return undefined;
  return { clientSecret, ...(typeof issuer === 'string' && { boundIssuer: issuer }) };
}

type Proof = { form: Record<string, string>; headers: Record<string, string> };

/**
 * The headers and parameters that authenticate a client at an endpoint of `server`, by a method that the server accepts.
 *
 * RFC 6749 §2.3.1, RFC 7523 §2.2
 *
 * @throws {OAuthError} `metadata` if the server accepts no method that this client can use
 */
export async function authenticateClient(
  client: OAuthClient,
  server: Pick<AuthorizationServer, 'issuer' | 'tokenEndpoint' | 'tokenEndpointAuthMethods'>,
  now: EpochSeconds,
): Promise<Proof> {
  const { clientId, clientSecret } = client;
  switch (chooseMethod(client, server)) {
    case 'private_key_jwt': {
      const key = await client.privateKey?.();
      if (!key) break;
      return {
        form: {
          client_id: clientId,
          client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
          client_assertion: clientAssertion({ clientId, key }, server.issuer, now),
        },
        headers: {},
      };
    }
    case 'client_secret_basic':
      return { form: {}, headers: { authorization: basic(clientId, clientSecret ?? '') } };
    case 'client_secret_post':
      return { form: { client_id: clientId, client_secret: clientSecret ?? '' }, headers: {} };
    case 'none':
      return { form: { client_id: clientId }, headers: {} };
    case undefined:
  }
  const endpoint = server.tokenEndpoint;
  const offered = client.privateKey ? 'private key' : 'client secret';
  throw new OAuthError('metadata', `${endpoint} does not accept a ${offered}`, { endpoint });
}

const secretMethods = ['client_secret_basic', 'client_secret_post'] as const;
type Method = (typeof secretMethods)[number] | 'private_key_jwt' | 'none';

function chooseMethod(
  { privateKey, clientSecret, authMethod }: OAuthClient,
  { tokenEndpointAuthMethods: methods }: Pick<AuthorizationServer, 'tokenEndpointAuthMethods'>,
): Method | undefined {
  // A server may accept a method that it does not announce, if the client was registered with that method.
  if (privateKey) return 'private_key_jwt';
  if (clientSecret === undefined || authMethod === 'none') return 'none';
  const agreed = secretMethods.find((method) => method === authMethod);
  const announced = secretMethods.find((method) => methods.includes(method));
  return agreed ?? announced;
}

function basic(clientId: string, clientSecret: string): string {
  const encode = (text: string) => new URLSearchParams({ '': text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encode(clientId)}:${encode(clientSecret)}`).toString('base64')}`;
}

const lifeSeconds = 60;

/**
 * A signed JWT that authenticates the client at the token endpoint of one issuer. The algorithm follows from the key: EdDSA for
 * Ed25519, ES256 for P-256, RS256 for RSA.
 *
 * RFC 7523 §3; `aud` is the issuer, as in draft-ietf-oauth-rfc7523bis
 *
 * @throws {OAuthError} `client` if the key is of another kind
 */
export function clientAssertion(
  { clientId, key }: { clientId: string; key: KeyObject },
  issuer: string,
  now: EpochSeconds,
): string {
  const { alg, digest } = algorithm(key, issuer);
  const claims = {
    iss: clientId,
    sub: clientId,
    aud: issuer,
    iat: now,
    exp: now + lifeSeconds,
    jti: randomUUID(),
  };
  const signed = [{ alg, typ: 'JWT' }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  // JOSE requires r and s concatenated; Node's default is DER. RFC 7518 §3.4
  const signature = sign(digest, Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
  return `${signed}.${signature.toString('base64url')}`;
}

function algorithm(key: KeyObject, issuer: string): { alg: string; digest: string | null } {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519') return { alg: 'EdDSA', digest: null };
  if (type === 'ec' && details?.namedCurve === 'prime256v1')
    return { alg: 'ES256', digest: 'sha256' };
  if (type === 'rsa') return { alg: 'RS256', digest: 'sha256' };
  throw new OAuthError('client', 'the private key is neither Ed25519, P-256 nor RSA', {
    endpoint: issuer,
  });
}

/**
 * Reads the private key from a PEM file, which may be encrypted with `passphrase`.
 *
 * @throws {OAuthError} `client`; the message never contains any of the file's contents
 */
export async function readPrivateKeyFile(
  path: string,
  passphrase: string | undefined,
): Promise<KeyObject> {
  const pem = await readFile(path).catch((error: unknown) => {
    throw unusable(path, 'cannot be read', error);
  });
  try {
    return createPrivateKey({ key: pem, ...(passphrase !== undefined && { passphrase }) });
  } catch (error) {
    const encrypted = pem.includes('ENCRYPTED');
    const why = encrypted
      ? 'cannot be decrypted; check LATCHKEY_PRIVATE_KEY_PASSPHRASE'
      : 'is not a private key in PEM format';
    throw unusable(path, why, error);
  }
}

function unusable(path: string, why: string, cause: unknown): OAuthError {
  return new OAuthError('client', `privateKeyFile ${path} ${why}`, { endpoint: path }, { cause });
}

/** Far more than a token needs: a projected Kubernetes token has about 1,500 characters. */
const maxReferenceLength = 32_768;

/**
 * The text that `file:PATH` or `env:NAME` refers to.
 *
 * @throws {OAuthError} `client`; the message never contains any of the text
 */
export async function readReference(
  reference: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const { text, why } = await read(reference, env);
  const trimmed = text?.trim() ?? '';
  // JWTs and client secrets consist of these characters: VSCHAR in RFC 6749 §A.
  if (/^[\x20-\x7e]+$/.test(trimmed) && trimmed.length <= maxReferenceLength) return trimmed;
  const remedy = 'check that the file or variable exists and contains the token';
  const problem =
    why ??
    (trimmed === ''
      ? 'is empty'
      : `is not one line of at most ${maxReferenceLength} ASCII characters`);
  throw new OAuthError('client', `${reference} ${problem}`, { endpoint: reference, remedy });
}

async function read(
  reference: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ text?: string | undefined; why?: string }> {
  if (reference.startsWith('env:')) return { text: env[reference.slice(4)] };
  try {
    return { text: await readFile(reference.slice('file:'.length), 'utf8') };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
    return { why: `cannot be read (${code})` };
  }
}
