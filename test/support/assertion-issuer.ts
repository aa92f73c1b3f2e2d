import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import {
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  type JWK,
  type JWTHeaderParameters,
  SignJWT,
} from 'jose';

import { listen } from './loopback.ts';

export const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** The claims and header members that an issuer signs; `undefined` leaves one out. */
export interface Signed {
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly header?: Readonly<Record<string, unknown>>;
}

/** An issuer of JWTs that signs whatever a test says, with a key that it publishes at `/keys`. */
export interface AssertionIssuer extends AsyncDisposable {
  readonly issuer: string;
  readonly keysUrl: string;
  /** The keys that it publishes. */
  readonly jwks: { readonly keys: readonly JWK[] };
  readonly privateKey: CryptoKey;
  /** How often its keys were read. */
  readonly reads: () => number;
  /** Signs with its newest key; `key` and `header` override. */
  sign(what: Signed, key?: CryptoKey | Uint8Array): Promise<string>;
  /** Makes another key. Unless `keepsOld`, it publishes only the new key. */
  rotate(keepsOld?: boolean): Promise<void>;
  /** Says in its configuration that its keys are at another URL. */
  publishAt(url: string): void;
  /** Answers each request with this status from now on. */
  fail(status: number | undefined): void;
}

export async function assertionIssuer({ alg = 'ES256' } = {}): Promise<AssertionIssuer> {
  let reads = 0;
  let failure: number | undefined;
  let publishedAt: string | undefined;
  let issuer = '';
  let pair = await generateKeyPair(alg, { extractable: true });
  let kid = randomUUID();
  const publicOf = async () => ({ ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' });
  let jwks = { keys: [await publicOf()] };
  const server = createServer(({ url }, response) => {
    if (failure !== undefined) return void response.writeHead(failure).end();
    response.setHeader('Content-Type', 'application/json');
    if (url === '/keys') {
      reads += 1;
      return void response.end(JSON.stringify(jwks));
    }
    if (url !== '/.well-known/openid-configuration') return void response.writeHead(404).end();
    response.end(JSON.stringify({ issuer, jwks_uri: publishedAt ?? `${issuer}/keys` }));
  });
  issuer = `http://127.0.0.1:${await listen(server)}`;
  return {
    issuer,
    keysUrl: `${issuer}/keys`,
    get jwks() {
      return jwks;
    },
    get privateKey() {
      return pair.privateKey;
    },
    reads: () => reads,
    sign({ claims = {}, header = {} }, key = pair.privateKey) {
      const protectedHeader: JWTHeaderParameters = { alg, kid, ...header };
      return new SignJWT({ iss: issuer, ...claims }).setProtectedHeader(protectedHeader).sign(key);
    },
    async rotate(keepsOld = false) {
      pair = await generateKeyPair(alg, { extractable: true });
      kid = randomUUID();
      jwks = { keys: [...(keepsOld ? jwks.keys : []), await publicOf()] };
    },
    publishAt: (url) => void (publishedAt = url),
    fail: (status) => void (failure = status),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
