import type { IncomingHttpHeaders } from 'node:http';

import type { AuthorizationCode } from '#db/authorization-codes';
import type { OAuthClient } from '#db/clients';
import type { NamedGrant } from '#db/grants';
import { accessTokenLifeSeconds, grantLifeSeconds } from '#model/lifetimes';
import type { AccessTokens } from './access-tokens.ts';
import type { NotePorts } from './audit-notes.ts';
import type { ClientContext, IdentifiedClient } from './client-authentication.ts';
import type { Form } from './forms.ts';
import { redirectPlace } from './redirect-uris.ts';
import type { EpochSeconds } from '#model/clock';
import { formatScopes, type Scope } from '#model/scopes';
import { randomBase62 } from '#secrets/secrets';

/** A request to the token endpoint, as grants see it. */
export interface TokenRequest {
  readonly form: Form;
  readonly method: 'POST';
  /** The URL that clients send it to. */
  readonly url: string;
  /** By lower-case name. */
  readonly headers: Readonly<IncomingHttpHeaders>;
}

/** The token endpoint's answer. RFC 6749 §5.1, RFC 8693 §2.2.1, RFC 9449 §5 */
export interface TokenResponse {
  readonly access_token: string;
  readonly token_type: 'Bearer' | 'DPoP' | 'N_A';
  /** In seconds. */
  readonly expires_in: number;
  /** Absent for the list of servers, which needs no scope. */
  readonly scope?: string;
  readonly refresh_token?: string;
  /** What the token is, if it was exchanged for another. */
  readonly issued_token_type?: string;
}

export interface Issued {
  readonly tokens: TokenResponse;
  /** Headers of the answer in addition to those of every answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The dependencies of the grants. */
export interface GrantContext extends ClientContext, NotePorts {
  readonly tokens: AccessTokens;
  /** The URL of the MCP endpoint at `{organization}/{server}`. */
  readonly endpointUrl: (serverPath: string) => string;
}

type CodeOfGrant = Pick<
  AuthorizationCode,
  'grantId' | 'userId' | 'serverId' | 'tools' | 'redirectUri' | 'assistant' | 'deviceId'
> & { readonly serverPath: string };

type Granted = Pick<NamedGrant, 'id' | 'userId' | 'clientId' | 'serverPath' | 'expiresAt'>;

/** A token of a client that acts on its own behalf. There is no refresh token, because the client can always ask again. */
export function clientToken(
  { id }: OAuthClient,
  of: { readonly scopes: readonly Scope[]; readonly audience: string },
  ports: GrantContext,
): Issued {
  const own = { id: undefined, userId: id, clientId: id, expiresAt: Infinity };
  return issuedFor(own, of, ports);
}

/** The grant that a code begins. */
export function grantOf(
  code: CodeOfGrant,
  { client, authenticated }: IdentifiedClient,
  scopes: readonly Scope[],
  createdAt: EpochSeconds,
) {
  const { grantId: id, userId, serverId, serverPath, tools, assistant, deviceId } = code;
  const redirectHost = redirectPlace(code.redirectUri).host;
  const to = { id, userId, clientId: client.id, serverId, serverPath, scopes, tools };
  const by = { redirectHost, assistant, deviceId, authenticated };
  return { ...to, ...by, createdAt, expiresAt: createdAt + grantLifeSeconds };
}

/** The tokens of a grant: an access token and, if there is one, a refresh token for the next access token. */
export function grantedToken(
  grant: Granted,
  of: { readonly scopes: readonly Scope[]; readonly refreshToken?: string },
  ports: GrantContext,
): Issued {
  return issuedFor(grant, { ...of, audience: ports.endpointUrl(grant.serverPath) }, ports);
}

/** The tokens for any audience, of one grant or of several under one refresh token. `scopes` is absent if none are needed. */
export function issuedFor(
  grant: Omit<Granted, 'serverPath' | 'id'> & { readonly id: string | undefined },
  {
    scopes,
    refreshToken,
    audience,
  }: {
    readonly scopes?: readonly Scope[];
    readonly refreshToken?: string;
    readonly audience: string;
  },
  { tokens, clock }: Pick<GrantContext, 'tokens' | 'clock'>,
): Issued {
  const issuedAt = clock.now();
  // The token carries the expiry of the grant, so that a call need not look it up.
  const expiresAt = Math.min(issuedAt + accessTokenLifeSeconds, grant.expiresAt);
  const accessToken = tokens.issue({
    id: randomBase62(22),
    subject: grant.userId,
    clientId: grant.clientId,
    grantId: grant.id,
    audience,
    scopes: scopes ?? [],
    issuedAt,
    expiresAt,
  });
  return {
    tokens: {
      access_token: accessToken,
      token_type: 'Bearer',
      expires_in: expiresAt - issuedAt,
      ...(scopes && { scope: formatScopes(scopes) }),
      ...(refreshToken !== undefined && { refresh_token: refreshToken }),
    },
  };
}
