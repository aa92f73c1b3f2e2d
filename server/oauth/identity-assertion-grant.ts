import { z } from 'zod';

import { assertedIdentity } from '#accounts/openid-provider';
import {
  type EntryPorts,
  entryOf,
  linkedBy,
  type NoEntry,
  type OwnedProvider,
  provedFactors,
} from '#accounts/organization-providers';
import type { AdmissionStore } from '#db/admissions';
import { putAssertedGrant } from '#db/assertion-grants';
import type { AuditEvent } from '#db/audit';
import type { OAuthClient } from '#db/clients';
import { findMember } from '#db/people';
import { isLoggedOutSince } from '#db/provider-sessions';
import { findServer } from '#db/servers';
import { findSettings } from '#db/settings';
import { transaction } from '#db/transaction';
import {
  findKnownGrant,
  findVouchingProvider,
  lockMemberLink,
  lockVouchingProvider,
  type VouchingProvider,
} from '#db/vouching-providers';
import { grantLifeSeconds } from '#model/lifetimes';
import { type Awaitable, whenReady } from '#model/awaitable';
import { identityAssertionLifeSeconds } from '#model/lifetimes';
import { formatScopes, isScope, type Scope, scopeWords } from '#model/scopes';
import { missingProof } from '#model/sign-in-proof';
import { parseServerPath } from '#model/slug';
import { suspended } from '#model/suspension';
import { hashSecret, randomBase62 } from '#secrets/secrets';
import {
  type AssertionLedger,
  assertionRefused,
  type AssertionTerms,
  spendAssertion,
  type UnverifiedAssertion,
  verifyAssertion,
} from './assertions.ts';
import { note } from './audit-notes.ts';
import { claimedDevice } from './authorization-request.ts';
import {
  claimedClient,
  identifyClient,
  type IdentifiedClient,
  provedClient,
  signerOf,
} from './client-authentication.ts';
import type { Form } from './forms.ts';
import type { ResolveClient } from './client-documents.ts';
import { namedDevice } from './consent.ts';
import { type IssuerKeys, keySource } from './issuer-keys.ts';
import { OAuthError } from './oauth-error.ts';
import { notPermittedWords, permittedScopes } from './permitted-scopes.ts';
import {
  grantedToken,
  type GrantContext,
  type Issued,
  type TokenRequest,
} from './token-response.ts';

/** The type of an identity assertion. draft-ietf-oauth-identity-assertion-authz-grant-04 §3.1 */
export const identityAssertionType = 'oauth-id-jag+jwt';

/** The profile that tells clients that this server accepts identity assertions. draft-ietf-oauth-identity-assertion-authz-grant-04 §6 */
export const identityAssertionProfile = 'urn:ietf:params:oauth:grant-profile:id-jag';

type RepeatedRefusal = Omit<AuditEvent, 'at' | 'outcome' | 'times'>;

/** The dependencies of assertions in addition to those of other grants. */
export interface AssertionPorts {
  readonly issuerKeys: IssuerKeys;
  readonly ledger: Pick<AssertionLedger, 'spend'>;
  readonly admissions: Pick<AdmissionStore, 'byClient' | 'changeToken'>;
  readonly providerSetup: EntryPorts['providerSetup'];
  /** Records refusals that can be repeated endlessly, after the answer. */
  readonly refusals: { noteLater(refusal: RepeatedRefusal): void };
  /** Reads the document of a client again if necessary, on behalf of the provider whose organization allows it. */
  readonly resolveClient: ResolveClient;
}

const claimsSchema = z.object({
  client_id: z.string().min(1).max(2000),
  jti: z.string().min(1).max(500),
  iat: z.number(),
  resource: z.union([z.string(), z.array(z.string()).min(1).max(100)]),
  scope: z.string().max(2000).optional(),
});

type IdentityClaims = z.output<typeof claimsSchema>;

/**
 * Exchanges an identity assertion (ID-JAG), with which an identity provider of an organization vouches for a person to an application.
 * The person is not asked, because their organization decided. There is no refresh token: the client exchanges another assertion,
 * so that what the provider decides takes effect within the life of an access token.
 *
 * draft-ietf-oauth-identity-assertion-authz-grant-04 §5, RFC 7523 §3
 *
 * @throws {OAuthError} `invalid_request`, `invalid_client`, `unauthorized_client`, `invalid_grant`
 */
export function identityAssertionGrant(
  request: TokenRequest,
  assertion: UnverifiedAssertion,
  ports: GrantContext & AssertionPorts,
): Awaitable<Issued & { readonly client: OAuthClient }> {
  const { form } = request;
  const { db, endpointUrl } = ports;
  const claimed = claimsSchema.safeParse(assertion.claims);
  const place = claimed.success ? requestedPlace(form, claimed.data, endpointUrl) : undefined;
  const named = place && findVouchingProvider(db, place.organization, assertion.claims.iss);
  return whenReady(named, (found) =>
    whenReady(identifyAssertingClient(request, found, ports), (from) => {
      const { client } = from;
      // A client that redeems a code proves with PKCE that it asked for the code; here, only authentication proves anything.
      if (client.organization !== undefined) provedClient(from);
      if (client.isSuspended) throw new OAuthError('invalid_grant', suspended('owner_left'));
      if (!claimed.success) {
        throw assertionRefused(`has no valid ${String(claimed.error.issues[0]?.path[0])}`);
      }
      if (!place)
        throw assertionRefused('is for no server here, or not for the requested resource');
      const provider = vouchingFor(client, found);
      const about = { assertion, claims: claimed.data, provider };
      return whenReady(verifyAssertion(assertion, termsOf(provider, ports), ports), () => {
        if (claimed.data.client_id !== client.id) throw assertionRefused('is for another client');
        return whenReady(renewedGrant(about, place, { client, form }, ports), (renewed) =>
          renewed
            ? { ...grantedToken(renewed.grant, renewed, ports), client }
            : newGrant(about, place, { from, form }, ports),
        );
      });
    }),
  );
}

/** The provider, if its assertions are accepted from this client. @throws {OAuthError} `unauthorized_client`, `invalid_grant` */
function vouchingFor(
  client: OAuthClient,
  provider: VouchingProvider | undefined,
): VouchingProvider {
  if (!provider) throw assertionRefused('is of an issuer that may not vouch for people there');
  if (!mayUse(client, provider)) {
    const why = 'the organization does not let this client use identity assertions';
    throw new OAuthError('unauthorized_client', why);
  }
  // An issuer for workloads must not vouch for people.
  if (provider.isOfWorkloads) throw assertionRefused('is of an issuer of workloads');
  return provider;
}

function termsOf(provider: VouchingProvider, { base }: GrantContext): AssertionTerms {
  return {
    source: keySource(provider),
    issuer: provider.issuer,
    audiences: [base, `${base}/`],
    longestLifeSeconds: identityAssertionLifeSeconds,
  };
}

/** Decides what the person and the client may do, and makes or renews the grant. @throws {OAuthError} `invalid_grant` */
async function newGrant(
  about: Omit<Asserted, 'serverId'>,
  place: Place,
  { from, form }: { readonly from: IdentifiedClient; readonly form: Form },
  ports: GrantContext & AssertionPorts,
): Promise<Issued & { readonly client: OAuthClient }> {
  const { client } = from;
  const server = await findServer(ports.db, place.organization, place.server);
  if (!server || server.disabledAt !== undefined || !covers(about.provider, server.id)) {
    throw assertionRefused('is for no server where assertions are allowed');
  }
  if (client.serverId !== undefined && client.serverId !== server.id) {
    throw assertionRefused('is for another server than the client');
  }
  const asserted = { ...about, serverId: server.id };
  const serverPath = `${place.organization}/${place.server}`;
  const vouched = await vouchedPerson(asserted, { from, form, serverPath }, ports);
  const grant = await grantOf(asserted, vouched, { from, form, place }, ports);
  return { ...grantedToken(grant, { scopes: vouched.scopes }, ports), client };
}

interface Place {
  readonly organization: string;
  readonly server: string;
  /** Whether the assertion is also for servers of another organization. */
  readonly isOfSeveral: boolean;
}

/** The server that the tokens are for: the only one in the assertion, or the one of several that the request names. RFC 8707 §2 */
function requestedPlace(
  form: Form,
  { resource: allowed }: Pick<IdentityClaims, 'resource'>,
  endpointUrl: GrantContext['endpointUrl'],
): Place | undefined {
  const resource = form.get('resource') ?? (typeof allowed === 'string' ? allowed : undefined);
  const start = endpointUrl('');
  const parsed = (one: string) =>
    one.startsWith(start) ? parseServerPath(one.slice(start.length)) : undefined;
  if (resource === undefined || ![allowed].flat().includes(resource)) return undefined;
  const place = parsed(resource);
  if (!place || typeof allowed === 'string') return place && { ...place, isOfSeveral: false };
  const organizations = new Set(allowed.flatMap((one) => parsed(one)?.organization ?? []));
  return { ...place, isOfSeveral: organizations.size > 1 };
}

/** Identifies the client. The document of a client is read, again or for the first time, only if the organization allows that client here. */
function identifyAssertingClient(
  { form, headers }: TokenRequest,
  provider: OwnedProvider | undefined,
  ports: GrantContext & AssertionPorts,
): Awaitable<IdentifiedClient> {
  const clientId = claimedClient(form, headers.authorization) ?? signerOf(form);
  const identify = () => identifyClient(form, headers.authorization, ports);
  if (clientId?.startsWith('https:') && provider?.assertionClients.includes(clientId)) {
    return ports.resolveClient(clientId, { userId: provider.id }).then(identify);
  }
  return identify();
}

/** Whether an organization lets this client exchange assertions of its provider. */
export function mayUse(
  client: OAuthClient,
  { assertionClients, organization }: OwnedProvider,
): boolean {
  if (assertionClients.length > 0) return assertionClients.includes(client.id);
  return client.organization === organization;
}

/** Whether assertions of a provider are accepted at this server. */
export function covers({ assertionServers }: OwnedProvider, serverId: string): boolean {
  return assertionServers.length === 0 || assertionServers.includes(serverId);
}

/** How old the times of a grant and a link may be before they are written again. */
const grantPrecisionSeconds = 86_400;
const linkPrecisionSeconds = 60;

/**
 * Marks the assertion as used and returns the grant of an earlier assertion about the same person, client and server, if that is all there is to do,
 * as for most requests. Whatever ends the grant meanwhile ends its tokens, too. `undefined` if anything else has to be decided or written.
 *
 * @throws {OAuthError} `invalid_grant` for an assertion that was used before
 */
function renewedGrant(
  { assertion, claims, provider }: Omit<Asserted, 'serverId'>,
  place: Place,
  { client, form }: { client: OAuthClient; form: Form },
  { db, base, clock, admissions, ledger }: GrantContext & AssertionPorts,
): Awaitable<{ grant: GrantOfToken; scopes: readonly Scope[] } | undefined> {
  const { sub: subject, exp } = assertion.claims;
  const issuedAt = Math.floor(claims.iat);
  const device = claimedDevice(form, client, base);
  const deviceHash = device ? hashSecret(device.id) : '';
  const at = { ...place, providerId: provider.id, subject, clientId: client.id, issuedAt };
  return whenReady(findKnownGrant(db, { ...at, deviceHash }), (known) => {
    if (!known || !covers(provider, known.serverId)) return undefined;
    if (client.serverId !== undefined && client.serverId !== known.serverId) return undefined;
    const now = clock.now();
    const isRecent =
      known.usedAt > now - linkPrecisionSeconds &&
      known.expiresAt > now + grantLifeSeconds - grantPrecisionSeconds;
    if (!isRecent || (known.secondFactorRequired && !provider.countsAsTwoFactors)) return undefined;
    const { id, userId, expiresAt } = known;
    const asOf = admissions.changeToken();
    return whenReady(admissions.byClient({ ...at, grant: { id, userId }, asOf }), (found) => {
      if (!found || 'suspension' in found) return undefined;
      const scopes = narrowed(found.scopes, form, claims);
      if (scopes.length === 0 || formatScopes(scopes) !== formatScopes(known.scopes))
        return undefined;
      return ledger.spend({ ...ledgerOf(provider, place), id: claims.jti, exp }).then((isFirst) => {
        if (!isFirst) throw assertionRefused('was used before');
        const serverPath = `${place.organization}/${place.server}`;
        return { grant: { id, userId, clientId: client.id, serverPath, expiresAt }, scopes };
      });
    });
  });
}

type GrantOfToken = Parameters<typeof grantedToken>[0];

interface Asserted {
  readonly assertion: UnverifiedAssertion;
  readonly claims: IdentityClaims;
  readonly provider: OwnedProvider;
  readonly serverId: string;
}

interface Vouched {
  readonly identity: ReturnType<typeof assertedIdentity>;
  readonly entry: { readonly outcome: 'linked' | 'linkable'; readonly userId: string };
  /** At least one. */
  readonly scopes: readonly Scope[];
}

/** The person that a verified assertion is about, and what the client may do for them there. @throws {OAuthError} `invalid_grant` */
async function vouchedPerson(
  { assertion, claims, provider }: Asserted,
  { from, form, serverPath }: { from: IdentifiedClient; form: Form; serverPath: string },
  ports: GrantContext & AssertionPorts,
): Promise<Vouched> {
  const { groupsClaim, emailTrusted: isTrusted } = provider;
  const identity = assertedIdentity(
    { ...assertion.claims, iat: claims.iat },
    {},
    { groupsClaim, isTrusted },
  );
  const entry = await entryOf(identity, provider, ports);
  if (entry.outcome === 'refused') throw notLinked(entry.why, provider, ports);
  // A person who joins the organization has to sign in once.
  if (entry.outcome === 'joining') throw notLinked('no-member', provider, ports);
  const { userId } = entry;
  const member = await findMember(ports.db, provider.organizationId, userId);
  const rules = await findSettings(ports.db, provider.organization);
  if (!member || !rules) throw noEntry('no-member');
  const proved = { factors: provedFactors(identity, provider), through: provider };
  if (missingProof(proved, member.role, rules) !== undefined) {
    throw assertionRefused('does not say that the person proved a second factor');
  }
  const { client } = from;
  const scopes = narrowed(client.scopes, form, claims);
  const about = { userId, serverPath, client, isVouched: true };
  const permitted = await permittedScopes(scopes, about, ports);
  if (permitted.outcome === 'permitted') return { identity, entry, scopes: permitted.scopes };
  throw new OAuthError('invalid_grant', notPermittedWords[permitted.outcome]);
}

/** Narrows `scopes` to those that the request and the assertion both name. If one of these names none, it does not narrow them. */
function narrowed(scopes: readonly Scope[], form: Form, claims: IdentityClaims): readonly Scope[] {
  const named = [form.get('scope'), claims.scope].filter((words) => words !== undefined);
  const wanted = named.map((words) => new Set(scopeWords(words).filter(isScope)));
  return scopes.filter((scope) => wanted.every((words) => words.has(scope)));
}

/** Marks the assertion as used, and makes or renews the grant, in one transaction. @throws {OAuthError} `invalid_grant` */
async function grantOf(
  { assertion, claims, provider, serverId }: Asserted,
  { identity, entry, scopes }: Vouched,
  { from, form, place }: { from: IdentifiedClient; form: Form; place: Place },
  ports: GrantContext & AssertionPorts,
): Promise<GrantOfToken> {
  const { base, db, clock } = ports;
  const { client, authenticated } = from;
  const { userId } = entry;
  const { subject, authentication } = identity;
  const claimed = claimedDevice(form, client, base);
  const device = claimed && namedDevice(claimed);
  const serverPath = `${place.organization}/${place.server}`;
  const now = clock.now();
  const spent = { ...ledgerOf(provider, place), id: claims.jti, exp: assertion.claims.exp };
  const expiresAt = now + grantLifeSeconds;
  const link = { providerId: provider.id, subject };
  return transaction(db, async (tx) => {
    // This comes first, because a logout locks in this order, too.
    if (await isLoggedOutSince(tx, link, Math.floor(claims.iat))) {
      throw assertionRefused('was issued before the person was logged out');
    }
    if (!(await lockVouchingProvider(tx, provider))) {
      throw assertionRefused('is of an issuer whose settings have just changed');
    }
    const done = {
      actor: `user:${userId}`,
      organization: provider.organization,
      outcome: 'done',
    } as const;
    const within = { ...ports, db: tx };
    if (entry.outcome === 'linkable') {
      const linked = await linkedBy(entry, { identity, provider, at: now }, tx);
      if ('why' in linked) throw notLinked(linked.why, provider, ports);
      const target = `provider:${provider.id}`;
      await note({ ...done, action: 'provider.link', target }, within);
    }
    if (!(await lockMemberLink(tx, link, userId, now))) throw noEntry('no-member');
    if (!(await spendAssertion(tx, spent, now))) throw assertionRefused('was used before');
    const id = `grant_${randomBase62(16)}`;
    const subjectOfGrant = { userId, clientId: client.id, serverId, providerId: provider.id };
    const signedInAt = authentication.authTime;
    const asked = { ...subjectOfGrant, id, scopes, authenticated, expiresAt, device, signedInAt };
    const made = await putAssertedGrant(tx, asked, now);
    if (made.outcome !== 'granted') throw new OAuthError('invalid_grant', refusals[made.outcome]);
    const target = `${client.id} ${serverPath}`;
    if (made.isNew) await note({ ...done, action: 'grant.assert', target }, within);
    return { id: made.id, userId, clientId: client.id, serverPath, expiresAt };
  });
}

const refusals = {
  withdrawn: 'access of this client was withdrawn: allow it again',
  // Our proxy recognizes the beginning of this text, and lets the person sign in at the provider again.
  'signed-out': 'signed out: this device was signed out after the person signed in',
};

/** Where an assertion is used up: in the organization and, if it is also for others, wherever the keys that verified it are trusted. */
function ledgerOf(provider: OwnedProvider, { isOfSeveral }: Place) {
  const { issuer, organizationId } = provider;
  return { issuer, organizationId, ...(isOfSeveral && { source: keySource(provider) }) };
}

/** Refuses a person whom the provider vouches for, and records the reason for the organization, like that of a refused sign-in. */
function notLinked(
  why: NoEntry,
  { id, organization }: OwnedProvider,
  { refusals: log, source }: GrantContext & AssertionPorts,
): OAuthError {
  const target = `provider:${id} ${why}`;
  log.noteLater({ actor: 'anonymous', organization, action: 'provider.link', target, ...source });
  return noEntry(why);
}

function noEntry(why: NoEntry): OAuthError {
  switch (why) {
    case 'email-missing':
    case 'email-unverified':
    case 'domain-unproved':
    case 'domain-foreign':
    case 'no-member':
    case 'other-account':
    case 'address-taken':
    case 'deactivated':
      // Only the log contains the reason.
      return assertionRefused('is about no member of the organization', why);
  }
}
