import { createHash, randomBytes } from 'node:crypto';

import { active } from '#server/gateway/admission';
import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import { accessTokens, type AccessTokenClaims } from '#server/oauth/access-tokens';
import { createClient } from '#server/admin/create-credentials';
import { ordinaryScopes, type Scope } from '#server/model/scopes';
import { masterKey } from '#server/secrets/master-key';
import { readSigningKeys } from '#server/oauth/signing-keys';
import { issueCode } from '#server/oauth/consent';
import type { OAuthError } from '#server/oauth/oauth-error';
import { tokenEndpoint } from '#server/oauth/grants';
import type { TokenResponse } from '#server/oauth/token-response';
import { sqliteAdmissions } from '#server/db/sqlite/admission-store';
import type { OpenStores } from '#server/app/stores';
import { openDatabase, openDatabaseIn } from './open-database.ts';
import { insertUser } from '#server/db/people';
import { newestEvents } from '#support/newest-events';
import { assertionPorts } from './assertion-ports.ts';
import { fakeClock, type FakeClock } from './fake-clock.ts';

type Fields = Readonly<Record<string, string | undefined>>;

/** A code verifier and its S256 challenge. RFC 7636 §4 */
export function pkcePair(verifier = randomBytes(32).toString('base64url')) {
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') };
}

export interface SignedIn {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly scope: string;
}

/**
 * The decisions of Latchkey's authorization server, with a database of its own and a clock that a test turns. It has the server
 * `acme/sales`, a client of that server, and Dana, who is a member.
 */
export interface AuthorizationServer extends AsyncDisposable {
  readonly base: string;
  readonly clock: FakeClock;
  readonly stores: OpenStores;
  readonly ports: Parameters<typeof tokenEndpoint>[1];
  readonly client: { readonly id: string; readonly secret: string };
  readonly redirectUri: string;

  /** A code for what Dana allowed, with the verifier that redeems it. */
  code(but?: {
    scopes?: readonly Scope[];
    challenge?: string;
    clientId?: string;
  }): Promise<{ code: string; verifier: string }>;

  /** Redeems a code with the right fields, except those in `but`; `undefined` leaves a field out. */
  redeem(issued: { code: string; verifier: string }, but?: Fields): Promise<SignedIn>;

  /** Issues a code and redeems it without a client secret. */
  signIn(but?: { scopes?: readonly Scope[] } & { form?: Fields }): Promise<SignedIn>;

  refresh(refreshToken: string, but?: Fields): Promise<SignedIn>;

  /** The scopes with which `acme/sales` admits this token now; `undefined` if it does not. */
  admitted(accessToken: string): Promise<readonly Scope[] | undefined>;

  claims(accessToken: string): Promise<AccessTokenClaims>;

  /** The newest actions in the audit log, newest first. */
  audited(): Promise<string[]>;
}

/** With its database in `dataDir`, or in memory. */
export async function authorizationServer(dataDir?: string): Promise<AuthorizationServer> {
  const base = 'https://latchkey.example';
  const redirectUri = 'http://127.0.0.1:49152/callback';
  const stores = await (dataDir === undefined ? openDatabase() : openDatabaseIn(dataDir));
  const clock = fakeClock();
  const now = clock.now();
  await insertOrganization(stores.db, { id: 'org_acme', name: 'acme', createdAt: now });
  const upstream = { kind: 'demo' } as const;
  const server = { id: 'srv_sales', organizationId: 'org_acme', name: 'sales', upstream };
  await insertServer(stores.db, { ...server, targetId: 'target_sales', createdAt: now });
  await insertUser(
    stores.db,
    { id: 'user_dana', email: 'dana@example.com', createdAt: now },
    { organizationId: 'org_acme', role: 'member' },
  );
  const scopes = [...ordinaryScopes, 'mcp:server:manage'] as const;
  const chosen = { name: 'Claude', serverId: server.id, jwks: undefined };
  const client = await createClient(
    { ...chosen, scopes, redirectUris: ['http://127.0.0.1/callback'] },
    { db: stores.db, clock },
  );
  const keys = await readSigningKeys(stores.db, {
    masterKey: masterKey(randomBytes(32)),
    clock,
  });
  const tokens = accessTokens(base, { keys, clock });
  const endpointUrl = (serverPath: string) => `${base}/mcp/${serverPath}`;
  const source = { address: '192.0.2.1', requestId: 'request' };
  const ports = {
    ...stores,
    ...assertionPorts(clock, stores.db),
    base,
    clock,
    tokens,
    endpointUrl,
    source,
    used: () => {},
  };
  const admissions = sqliteAdmissions(stores.connection);

  const ask = async (fields: Fields): Promise<SignedIn> => {
    const form = new Map(
      Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    const url = `${base}/api/oauth/token`;
    const { tokens: issued } = await tokenEndpoint(
      { form, method: 'POST', url, headers: {} },
      ports,
    );
    return signedIn(issued);
  };
  const claims = async (accessToken: string) => {
    const verdict = await tokens.verify(accessToken);
    if (verdict.outcome === 'invalid') throw new Error(verdict.reason);
    return verdict.claims;
  };

  const made: AuthorizationServer = {
    base,
    clock,
    stores,
    ports,
    client,
    redirectUri,
    async code({ scopes: granted = ordinaryScopes, challenge, clientId = client.id } = {}) {
      const pair = pkcePair();
      const request = {
        clientId,
        clientName: 'Claude',
        serverPath: 'acme/sales',
        scopes: granted,
        redirectUri,
        state: undefined,
        codeChallenge: challenge ?? pair.challenge,
      };
      const allowed = { userId: 'user_dana', serverId: server.id, scopes: granted };
      const location = new URL(await issueCode(request, allowed, ports));
      return { code: location.searchParams.get('code') ?? '', verifier: pair.verifier };
    },
    redeem: ({ code, verifier }, but = {}) =>
      ask({
        grant_type: 'authorization_code',
        code,
        code_verifier: verifier,
        client_id: client.id,
        redirect_uri: redirectUri,
        ...but,
      }),
    async signIn({ scopes: granted = ordinaryScopes, form = {} } = {}) {
      return made.redeem(await made.code({ scopes: granted }), form);
    },
    refresh: (refreshToken, but = {}) =>
      ask({
        grant_type: 'refresh_token',
        refresh_token: refreshToken,
        client_id: client.id,
        ...but,
      }),
    async admitted(accessToken) {
      const { id: tokenId, clientId, grantId, subject } = await claims(accessToken);
      const grant = grantId === undefined ? undefined : { id: grantId, userId: subject };
      const place = { organization: 'acme', server: 'sales' };
      return active(await admissions.byClient({ ...place, clientId, tokenId, grant }))?.scopes;
    },
    claims,
    audited: async () => (await newestEvents(stores.db, 20)).map(({ action }) => action),
    async [Symbol.asyncDispose]() {
      await stores.close();
    },
  };
  return made;
}

function signedIn({ access_token, refresh_token = '', scope = '' }: TokenResponse): SignedIn {
  return { accessToken: access_token, refreshToken: refresh_token, scope };
}

/** For `rejects.toMatchObject`: a refusal with this code. */
export function refusal(code: OAuthError['code']) {
  return { name: 'OAuthError', code };
}
