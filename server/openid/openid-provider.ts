import * as client from 'openid-client';

import type { IdentityProvider } from '#people/identity-provider';

const timeoutSeconds = 10;
const mostGroups = 500;
const longestGroupName = 256;

export interface OpenIdOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly name: string;
  /** Where the provider sends people back to: registered there, byte for byte. */
  readonly redirectUri: string;
  /** The claim that lists the groups of a person. */
  readonly groupsClaim: string;
  /** Scopes to ask for besides `openid email`, as some providers send groups only for one. */
  readonly scopes: readonly string[];
}

/**
 * An OpenID provider that the operator named. It is discovered when the first person signs in by it, so
 * that its absence keeps nobody from starting the server. ID tokens are verified against its keys.
 * OpenID Connect Core §3.1, RFC 9700 §2.1.1
 */
export function openIdProvider(options: OpenIdOptions): IdentityProvider {
  const { issuer, name, redirectUri, groupsClaim, scopes } = options;
  let discovered: Promise<client.Configuration> | undefined;
  const configuration = () => {
    discovered ??= discover(options).catch((error: unknown) => {
      discovered = undefined;
      throw error;
    });
    return discovered;
  };
  return {
    name,
    issuer,

    async begin({ state, nonce, codeVerifier }) {
      return client.buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUri,
        scope: ['openid', 'email', ...scopes].join(' '),
        state,
        nonce,
        code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      });
    },

    async finish(callback, { state, nonce, codeVerifier }) {
      const provider = await configuration();
      const tokens = await client.authorizationCodeGrant(provider, callback, {
        pkceCodeVerifier: codeVerifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (!claims) throw new Error('the provider sent no ID token');
      const asksMore =
        claims['email'] === undefined && provider.serverMetadata().userinfo_endpoint !== undefined;
      const more = asksMore
        ? await client.fetchUserInfo(provider, tokens.access_token, claims.sub)
        : claims;
      const { email, email_verified: isEmailVerified } = more;
      return {
        issuer: claims.iss,
        subject: claims.sub,
        email: typeof email === 'string' ? email : undefined,
        isEmailVerified: isEmailVerified === true,
        groups: groupNames(claims[groupsClaim] ?? more[groupsClaim]),
      };
    },
  };
}

/** Names of groups, however a provider sends them; without the claim somebody is in none. */
function groupNames(claim: unknown): readonly string[] {
  const names: unknown[] = Array.isArray(claim) ? claim : [claim];
  return names
    .filter((name): name is string => typeof name === 'string' && name !== '')
    .filter(({ length }) => length <= longestGroupName)
    .slice(0, mostGroups);
}

async function discover(options: OpenIdOptions): Promise<client.Configuration> {
  const { issuer, clientId, clientSecret } = options;
  const isLoopback = issuer.startsWith('http:');
  return client.discovery(new URL(issuer), clientId, clientSecret, undefined, {
    timeout: timeoutSeconds,
    execute: [
      // Not only what TLS vouches for: the signature too, by the keys that the provider publishes.
      client.enableNonRepudiationChecks,
      ...(isLoopback ? [client.allowInsecureRequests] : []),
    ],
  });
}
