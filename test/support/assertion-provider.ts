import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';

import { createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import type { JWTPayload } from 'jose';
import { errors, Provider, type ProviderContext } from 'oidc-provider';
import { z } from 'zod';

import { pkcePair } from './authorization-server.ts';
import { listen } from './loopback.ts';
import { consentAt } from './provider-consent.ts';

const tokenExchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const idJag = 'urn:ietf:params:oauth:token-type:id-jag';
const idTokenType = 'urn:ietf:params:oauth:token-type:id_token';
const refreshTokenType = 'urn:ietf:params:oauth:token-type:refresh_token';

const redirectUri = 'http://127.0.0.1/callback';

export interface AssertionProviderOptions {
  /** More redirect URIs of the assistant, such as that of an organization's identity provider. */
  readonly redirectUris?: readonly string[];
  /** The claims of ID tokens and assertions about a person, besides `sub`; by default a verified address `{login}@example.com`. */
  readonly claims?: (login: string) => Readonly<Record<string, unknown>>;
}

/** A token exchange as a client requested it. RFC 8693 §2.1 */
export interface Exchange {
  readonly audience: string | undefined;
  readonly resource: string | undefined;
  readonly scope: string | undefined;
  readonly subjectTokenType: string;
  /** `undefined` if the provider refused the exchange. */
  readonly assertion: string | undefined;
}

/**
 * The identity provider of a company: oidc-provider with two clients, an assistant and the programs on people's computers. It accepts
 * any name that a person enters, and exchanges ID tokens and refresh tokens for identity assertions.
 *
 * draft-ietf-oauth-identity-assertion-authz-grant-04 §4
 */
export interface AssertionProvider extends AsyncDisposable {
  readonly issuer: string;
  readonly jwksUri: string;
  readonly tokenEndpoint: string;
  /** The assistant, which authenticates with `client_secret` in the body. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** A native application without a secret, whose redirects arrive at any port of the person's computer. */
  readonly nativeClientId: string;
  /** Every exchange so far. */
  readonly exchanges: readonly Exchange[];

  /** Allows assertions for this audience; `clientId` is the id that the client has there. */
  register(audience: string, clientId: string): void;

  /** Signs in as `login` without a browser; the tokens that the assistant receives. */
  signIn(login: string): Promise<{ readonly idToken: string; readonly refreshToken: string }>;

  /** Changes the claims of assertions from now on; `undefined` leaves a claim out. */
  change(claims: (made: JWTPayload) => JWTPayload): void;

  /** Refuses exchanges from now on with this error, such as `insufficient_user_authentication`; `undefined` accepts them again. */
  refuse(error: { readonly error: string; readonly max_age?: number } | undefined): void;

  /** Signs any claims with the key of the provider. */
  sign(claims: JWTPayload, typ?: string): Promise<string>;
}

export async function assertionProvider({
  redirectUris = [],
  claims: told = (login) => ({ email: `${login}@example.com`, email_verified: true }),
}: AssertionProviderOptions = {}): Promise<AssertionProvider> {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  const named = { kid: 'of-the-company', alg: 'RS256', use: 'sig' };
  const published = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), ...named }] });
  const clientIds = new Map<string, string>();
  const exchanges: Exchange[] = [];
  let change = (made: JWTPayload) => made;
  let refusal: { readonly error: string } | undefined;

  let listener: RequestListener = () => {};
  const server = createServer((request, response) => listener(request, response));
  const issuer = `http://127.0.0.1:${await listen(server)}`;
  const clientId = 'assistant-there';
  const clientSecret = 'the secret of the assistant at the company';
  const nativeClientId = 'native-there';
  const grants = ['authorization_code', 'refresh_token', tokenExchange];
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [redirectUri, ...redirectUris],
        grant_types: grants,
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
        require_auth_time: true,
      },
      {
        client_id: nativeClientId,
        application_type: 'native',
        redirect_uris: [redirectUri],
        grant_types: grants,
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
        require_auth_time: true,
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), ...named }] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    discovery: { identity_chaining_requested_token_types_supported: [idJag] },
    ttl: { RefreshToken: 86_400, Grant: 86_400, Session: 86_400, Interaction: 3600 },
    // Refresh tokens are issued without `offline_access`, which would need a second consent.
    issueRefreshToken: () => true,
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, ...told(sub) }),
    }),
  });
  listener = provider.callback();

  const sign = (claims: JWTPayload, typ = 'oauth-id-jag+jwt') =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: named.kid, typ }).sign(privateKey);

  const subjectOf = async (token: string, type: string, client: string) => {
    if (type === refreshTokenType) {
      const found = await provider.RefreshToken.find(token);
      if (found?.clientId !== client) throw new errors.InvalidGrant('unknown refresh token');
      return { sub: found.accountId };
    }
    // The provider must not take the ID token of another client. RFC 8693 §2.1
    const { payload } = await jwtVerify(token, published, { issuer, audience: client });
    const { sub = '', auth_time: authTime } = payload;
    return { sub, ...(authTime !== undefined && { auth_time: authTime }) };
  };

  const exchange = async (context: ProviderContext): Promise<void> => {
    const asked = exchangeSchema.parse(context.oidc.params);
    const { audience, resource, scope, subject_token_type: subjectTokenType } = asked;
    const note = (assertion?: string) =>
      exchanges.push({ audience, resource, scope, subjectTokenType, assertion });
    const there = clientIds.get(audience ?? '');
    if (refusal || there === undefined) {
      note();
      context.status = 400;
      context.body = refusal ?? { error: 'invalid_target' };
      return;
    }
    const { clientId: asking } = context.oidc.client;
    const subject = await subjectOf(asked.subject_token, subjectTokenType, asking).catch(() => {
      note();
      throw new errors.InvalidGrant('the subject token is not valid');
    });
    const now = Math.floor(Date.now() / 1000);
    const assertion = await sign(
      change({
        ...told(subject.sub),
        iss: issuer,
        ...subject,
        aud: audience ?? '',
        client_id: there,
        jti: randomUUID(),
        iat: now,
        exp: now + 300,
        resource,
        scope,
      }),
    );
    note(assertion);
    context.body = {
      issued_token_type: idJag,
      access_token: assertion,
      token_type: 'N_A',
      expires_in: 300,
      ...(scope !== undefined && { scope }),
    };
  };
  provider.registerGrantType(tokenExchange, exchange, Object.keys(exchangeSchema.shape));

  return {
    issuer,
    jwksUri: `${issuer}/jwks`,
    tokenEndpoint: `${issuer}/token`,
    clientId,
    clientSecret,
    nativeClientId,
    exchanges,
    register: (audience, id) => void clientIds.set(audience, id),
    async signIn(login) {
      const { verifier, challenge } = pkcePair();
      const request = new URL(`${issuer}/auth`);
      request.search = new URLSearchParams({
        client_id: clientId,
        redirect_uri: redirectUri,
        response_type: 'code',
        scope: 'openid email',
        code_challenge: challenge,
        code_challenge_method: 'S256',
      }).toString();
      const callback = await consentAt(request.href, { issuer, login });
      const answer = await fetch(`${issuer}/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'authorization_code',
          code: callback.searchParams.get('code') ?? '',
          code_verifier: verifier,
          redirect_uri: redirectUri,
          client_id: clientId,
          client_secret: clientSecret,
        }),
      });
      const tokens = signedInSchema.parse(await answer.json());
      return { idToken: tokens.id_token, refreshToken: tokens.refresh_token };
    },
    change: (next) => void (change = next),
    refuse: (next) => void (refusal = next),
    sign,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const exchangeSchema = z.object({
  requested_token_type: z.literal(idJag),
  subject_token: z.string(),
  subject_token_type: z.enum([idTokenType, refreshTokenType]),
  audience: z.string().optional(),
  resource: z.string().optional(),
  scope: z.string().optional(),
});

const signedInSchema = z.object({ id_token: z.string(), refresh_token: z.string() });
