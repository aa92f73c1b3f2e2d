import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';

import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose';

import { listen } from './loopback.ts';

/** The parts of a sign-in that an OpenID provider may get wrong. */
export interface Lie {
  readonly claims?: JWTPayload;
  /** How the ID token is signed; with the published key by default. */
  readonly signature?: 'none' | 'hs256' | 'other-key';
  /** A refresh token that comes with the ID token. */
  readonly refreshToken?: string;
}

/** The parts of a logout token that the provider may get wrong; without `claims`, the token signs a person out everywhere. */
export interface LogoutLie {
  readonly claims?: JWTPayload;
  readonly typ?: string;
  readonly signature?: Lie['signature'];
}

/** An OpenID provider that vouches for whatever a test says, and checks PKCE like a good one. */
export interface LyingProvider extends AsyncDisposable {
  readonly issuer: string;
  /** Signs a logout token. */
  logoutToken(lie?: LogoutLie): Promise<string>;
  /** The provider's answer to each refresh token: another token, or an error of RFC 6749 §5.2. */
  readonly refreshing: Map<string, { readonly next?: string; readonly error?: string }>;
  /** Wrong answers of the token endpoint, by grant type: a status, and an error if the answer has a body. */
  readonly blunt: Map<string, { readonly status: number; readonly error?: string }>;
  /** Answers an authorization request; the callback URL to which the browser would be redirected. */
  authorize(request: URL, lie?: Lie): URL;
}

const secret = 'the secret of latchkey there';

export async function lyingProvider(): Promise<LyingProvider & { readonly clientSecret: string }> {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const other = await generateKeyPair('RS256');
  const refreshing: LyingProvider['refreshing'] = new Map();
  const blunt: LyingProvider['blunt'] = new Map();
  const codes = new Map<string, { request: URL; lie: Lie }>();
  let issuer = '';

  const idToken = async (request: URL, { claims, signature }: Lie): Promise<string> => {
    const now = Math.floor(Date.now() / 1000);
    const told: JWTPayload = {
      iss: issuer,
      aud: 'latchkey',
      sub: 'dana there',
      nonce: request.searchParams.get('nonce'),
      email: 'dana@example.com',
      email_verified: true,
      iat: now,
      exp: now + 300,
      ...claims,
    };
    return signed(told, { signature });
  };

  const signed = async (
    told: JWTPayload,
    { signature, typ = 'JWT' }: Pick<LogoutLie, 'signature' | 'typ'>,
  ): Promise<string> => {
    if (signature === 'none') return new UnsecuredJWT(told).encode();
    if (signature === 'hs256') {
      const key = new TextEncoder().encode(secret.padEnd(32));
      return new SignJWT(told).setProtectedHeader({ alg: 'HS256', typ }).sign(key);
    }
    const key = signature === 'other-key' ? other.privateKey : privateKey;
    return new SignJWT(told).setProtectedHeader({ alg: 'RS256', kid: 'one', typ }).sign(key);
  };

  const token = async (message: IncomingMessage): Promise<object> => {
    const form = new URLSearchParams(await text(message));
    const wrong = blunt.get(form.get('grant_type') ?? '');
    if (wrong) return wrong;
    const used = form.get('refresh_token');
    if (used !== null) {
      const { next, error } = refreshing.get(used) ?? { error: 'invalid_grant' };
      if (error !== undefined) return { error };
      return { access_token: 'a', token_type: 'Bearer', refresh_token: next };
    }
    const code = form.get('code') ?? '';
    const known = codes.get(code);
    codes.delete(code);
    const challenge = createHash('sha256').update(form.get('code_verifier') ?? '');
    if (challenge.digest('base64url') !== known?.request.searchParams.get('code_challenge')) {
      return { error: 'invalid_grant' };
    }
    const id_token = await idToken(known.request, known.lie);
    const { refreshToken: refresh_token } = known.lie;
    return { access_token: 'a', token_type: 'Bearer', id_token, refresh_token };
  };

  const answer = async (message: IncomingMessage): Promise<object> => {
    if (message.url === '/jwks') {
      const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
      return { keys: [jwk] };
    }
    if (message.url === '/token') return token(message);
    return {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      id_token_signing_alg_values_supported: ['RS256'],
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
    };
  };

  const server = createServer((message, response) => {
    void answer(message).then((body) => {
      const { status, ...members } = { status: 'error' in body ? 400 : 200, ...body };
      response.statusCode = status;
      if (Object.keys(members).length === 0) return response.end();
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(members));
    });
  });
  issuer = `http://127.0.0.1:${await listen(server)}`;
  return {
    issuer,
    clientSecret: secret,
    refreshing,
    blunt,
    logoutToken({ claims, signature, typ = 'logout+jwt' } = {}) {
      const now = Math.floor(Date.now() / 1000);
      const told: JWTPayload = {
        iss: issuer,
        aud: 'latchkey',
        // A logout also ends sessions that begin within the second of `iat`.
        iat: now - 1,
        exp: now + 120,
        jti: randomUUID(),
        events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
        ...(claims ?? { sub: 'dana there' }),
      };
      return signed(told, { signature, typ });
    },
    authorize(request, lie = {}) {
      const code = createHash('sha256').update(request.href).digest('hex');
      codes.set(code, { request, lie });
      const callback = new URL(request.searchParams.get('redirect_uri') ?? '');
      callback.searchParams.set('code', code);
      callback.searchParams.set('state', request.searchParams.get('state') ?? '');
      return callback;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
