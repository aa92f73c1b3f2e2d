// The credentials of a request to an upstream, apart from fixed headers: an access token, and an assertion of the caller's
// identity.
import { randomUUID } from 'node:crypto';
import type { Clock } from '#model/clock';
import type { Scope } from '#model/scopes';
import { discard } from '#gateway/answers';
import {
  UpstreamError,
  UpstreamRefusal,
  type UpstreamAnswer,
  type UpstreamRequest,
  type UpstreamSend,
  type UpstreamStep,
} from '#gateway/upstream';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { findUpstreamAccess } from '#db/upstream-access';
import type { AccessTokens } from '#oauth/access-tokens';
import { UpstreamAccessError, type CredentialedTarget } from './access.ts';
import { callerHeader } from '#model/fixed-headers';
import { accountPath, clientsOf } from './authorization-client.ts';
import {
  PersonTokens,
  ServerTokens,
  type EndedTokens,
  type PersonTokensOptions,
} from './tokens.ts';
import type { UpstreamAccount } from '#model/calls';
import type { Target } from '#model/endpoints';

/** The credentials that an upstream requires for one caller. */
export interface UpstreamCredentials {
  /** Returns an access token. `rejected` is one that the upstream has just refused; it is not returned again. */
  readonly token?: (rejected?: string) => Promise<string>;
  /** Returns a new assertion of the caller's identity. */
  readonly assertion?: () => Promise<string | undefined>;
  /** Whether a fixed header or the person's key sets `Authorization`. */
  readonly isAuthorizationFixed?: boolean;
  /** The kind of account that the last token is of; `undefined` before the first token. */
  readonly account?: () => UpstreamAccount | undefined;
  /** Whether the caller's account is still connected; absent when no account is used. */
  readonly isConnected?: () => Promise<boolean>;
  /** The URL of the page where the person connects their account. */
  readonly page: string;
}

/**
 * Sends requests to an upstream with the credentials it requires. When a token is refused, it is renewed and the request is sent
 * once more, which is safe because an upstream that answers 401 has not processed the request. Its 401 and 403 are about this
 * server's token, not the caller's, so the caller gets another error.
 */
export function authorizationStep(
  credentials: Omit<UpstreamCredentials, 'isConnected' | 'account'>,
): UpstreamStep {
  const { token, assertion, page, isAuthorizationFixed = false } = credentials;
  const sendWith = async (
    request: UpstreamRequest,
    next: UpstreamSend,
    accessToken: string | undefined,
  ) => {
    const caller = await assertion?.();
    const bearer = accessToken ?? (isAuthorizationFixed ? undefined : caller);
    const headers = {
      ...request.headers,
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      ...(caller !== undefined && bearer !== caller && { [callerHeader]: caller }),
    };
    return next({ ...request, headers });
  };
  return async (request, next) => {
    try {
      const first = await token?.();
      const answer = await sendWith(request, next, first);
      if (first === undefined || !token) return answer;
      if (answer.status === 403) await checkScope(answer, page);
      if (answer.status !== 401) return answer;
      await discard(answer.body);
      const second = await token(first);
      const again = await sendWith(request, next, second);
      if (again.status === 403) await checkScope(again, page);
      if (again.status !== 401) return again;
      await discard(again.body);
      throw new UpstreamRefusal('token_refused', page);
    } catch (error) {
      throw error instanceof UpstreamAccessError ? refusalOf(error, page) : error;
    }
  };
}

/** @throws {UpstreamRefusal} when the account lacks a scope. RFC 6750 §3.1 */
async function checkScope(answer: UpstreamAnswer, page: string): Promise<void> {
  if (!/\berror="?insufficient_scope\b/i.test(answer.challenge ?? '')) return;
  await discard(answer.body);
  throw new UpstreamRefusal('scope_missing', page);
}

function refusalOf(error: UpstreamAccessError, page: string): Error {
  switch (error.code) {
    case 'not_connected':
      return new UpstreamRefusal('not_connected', page, { cause: error });
    case 'unreachable':
      return new UpstreamError('unreachable', error.message, { cause: error });
    case 'ended':
    case 'refused':
    case 'denied':
    case 'unusable':
    case 'forbidden':
      return new UpstreamRefusal('no_token', page, { cause: error });
  }
}

/** Long enough for a slow request and for clocks that differ. */
const assertionLifetimeSeconds = 60;

/** The identity of a caller, as asserted to an upstream. */
export interface AssertedCaller {
  /** The person's id, or the id of an application or key that acts for itself. */
  readonly subject: string;
  /** The application's client id, or the key's id. */
  readonly clientId: string;
  readonly scopes: readonly Scope[];
  /** The URL of the endpoint that was called. */
  readonly endpoint: string;
}

/**
 * Returns a signed assertion of the caller's identity, for one request: a JWT access token whose audience is the upstream's URL
 * and whose key is in this server's JWKS. RFC 9068 §2
 *
 * Administrators of any organization can point a server at that URL and call it. The assertion therefore contains `endpoint`, by
 * which an upstream distinguishes the calls of its own organization's server from all others.
 *
 * Returns `undefined` for a URL of this server, where the assertion could be mistaken for an access token.
 */
export async function callerAssertion(
  url: string,
  { subject, clientId, scopes, endpoint }: AssertedCaller,
  { base, tokens, clock }: { base: string; tokens: Pick<AccessTokens, 'issue'>; clock: Clock },
): Promise<string | undefined> {
  if (new URL(url).origin === new URL(base).origin) return undefined;
  const issuedAt = clock.now();
  const life = { issuedAt, expiresAt: issuedAt + assertionLifetimeSeconds };
  const of = { subject, clientId, audience: url, scopes, endpoint };
  return tokens.issue({ id: randomUUID(), ...of, ...life });
}

/** Who makes a call to an upstream. */
export interface UpstreamCaller {
  /** Absent for an application or a key that acts for itself. */
  readonly userId?: string | undefined;
  readonly credentialId: string;
  readonly scopes: readonly Scope[];
}

export interface UpstreamAuthorizationsOptions extends Omit<PersonTokensOptions, 'clientOf'> {
  readonly base: string;
  readonly endpointUrl: (serverPath: string) => string;
  readonly tokens: Pick<AccessTokens, 'issue'>;
  readonly guard: OutboundGuard;
}

interface AccessOfServer {
  readonly accessId: string;
  readonly url: string;
  readonly page: string;
  readonly target: Target;
}

/** Adds the credentials that upstreams require: tokens of the caller's account or of the server, and assertions. */
export class UpstreamAuthorizations {
  readonly #options: UpstreamAuthorizationsOptions;
  readonly #persons: PersonTokens;
  readonly #servers: ServerTokens;

  constructor(options: UpstreamAuthorizationsOptions) {
    this.#options = options;
    const clientOf = clientsOf(options);
    this.#persons = new PersonTokens({ ...options, clientOf });
    this.#servers = new ServerTokens({ ...options, clientOf });
  }

  /** The credentials that a target requires, if it requires any. */
  credentialsFor(
    target: CredentialedTarget,
    caller: UpstreamCaller,
  ): UpstreamCredentials | undefined {
    const { url, accessId, forwardsCaller, headers = [] } = target.upstream;
    if (accessId === undefined && !forwardsCaller) return undefined;
    const page = this.#options.base + accountPath(target);
    return {
      page,
      isAuthorizationFixed:
        target.personKey?.header === 'authorization' ||
        headers.some(({ name }) => name === 'authorization'),
      ...(forwardsCaller && { assertion: () => this.#assertion(url, target, caller) }),
      ...(accessId !== undefined && this.#tokensOf({ accessId, url, page, target }, caller)),
    };
  }

  /** Removes and returns the still valid tokens of accesses that no server uses any more. */
  takeEnded(): Promise<readonly EndedTokens[]> {
    return this.#servers.takeEnded();
  }

  #tokensOf(
    { accessId, url, page, target }: AccessOfServer,
    { userId }: UpstreamCaller,
  ): Omit<UpstreamCredentials, 'page'> {
    let account: UpstreamAccount | undefined;
    return {
      account: () => account,
      token: async (rejected) => {
        const access = await findUpstreamAccess(this.#options.db, accessId);
        // A token is sent only to the URL that it was issued for, even if the server's URL has changed.
        if (access?.url !== url) throw new UpstreamRefusal('no_token', page);
        const isOfServer = access.kind === 'client_credentials';
        account = isOfServer ? 'server_account' : 'person_account';
        if (isOfServer) return this.#servers.token(access, target, rejected);
        if (userId === undefined) throw new UpstreamRefusal('no_person', page);
        return this.#persons.token(access, userId, rejected);
      },
      isConnected: async () => {
        const access = await findUpstreamAccess(this.#options.db, accessId);
        if (access?.url !== url) return false;
        if (access.kind === 'client_credentials') return true;
        return userId !== undefined && this.#persons.isConnected(access, userId);
      },
    };
  }

  async #assertion(
    url: string,
    { organization, name }: Target,
    { userId, credentialId, scopes }: UpstreamCaller,
  ) {
    const endpoint = this.#options.endpointUrl(`${organization}/${name}`);
    const subject = userId ?? credentialId;
    const caller = { subject, clientId: credentialId, scopes, endpoint };
    return callerAssertion(url, caller, this.#options);
  }
}
