import type { RefusalLog } from '#audit/counted-refusals';
import { insertAuditEvent } from '#db/audit';
import { findProvider, type JoiningRole, type ProviderRecord } from '#db/identity-providers';
import {
  findLinkedMember,
  insertJoiningMember,
  linkMember,
  noteMemberSignIn,
} from '#db/member-identities';
import {
  endDomainProof,
  findDomain,
  listDomains,
  type OrganizationDomain,
  setDomainProof,
} from '#db/organization-domains';
import { changeRole, findMember, findUserByEmail } from '#db/people';
import { placeKey, type SignInPlace } from '#db/provider-sessions';
import { transaction, type Db } from '#db/transaction';
import type { Clock, EpochSeconds } from '#model/clock';
import { domainOf, isEmail } from '#model/email';
import { isGoogle } from '#model/issuers';
import { isRole, roles } from '#model/roles';
import type { ProviderChecking } from '#model/provider-checks';
import type { Sealing } from '#secrets/master-key';
import { newUserId } from '#secrets/secrets';
import { AccountRefusal } from './account-refusal.ts';
import type { Authentication, UpstreamIdentity } from './openid-provider.ts';
import type { ProviderSetup } from './provider-setup.ts';
import { checkPurpose, type CheckedSignIn, type Visit } from './sessions.ts';

/** The dependencies of `entryOf`. */
export interface EntryPorts {
  readonly db: Db;
  readonly providerSetup: Pick<ProviderSetup, 'checkDomain'>;
  readonly clock: Clock;
}

/** The dependencies of a sign-in through a provider of an organization. */
export interface MemberSignInPorts extends EntryPorts {
  readonly providerSetup: ProviderSetup;
  readonly sealing: Pick<Sealing, 'seal'>;
  readonly refusals: RefusalLog;
}

export type OwnedProvider = ProviderRecord & { readonly organization: string };

/** Why an account at a provider, although proved, gives no access. */
export type NoEntry =
  | 'email-missing'
  /** The provider denies that the address is verified, or does not say and the organization does not trust it. */
  | 'email-unverified'
  /** The organization has not proved the domain of the address, or not any more. */
  | 'domain-unproved'
  /** The account at Google belongs to no organization whose domain this one has proved. */
  | 'domain-foreign'
  /** No member has the address, and the provider lets no one join. */
  | 'no-member'
  /** Another account of this provider is linked to the member with that address. */
  | 'other-account'
  /** A person outside the organization has an account with the address, so signing in with it lets no one join. */
  | 'address-taken'
  /** The organization's directory deactivated the person. */
  | 'deactivated';

/** The person whom a proved identity lets into the organization: now, or once it is linked. */
export type Entry =
  | { readonly outcome: 'linked' | 'linkable'; readonly userId: string }
  | { readonly outcome: 'joining'; readonly email: string; readonly role: JoiningRole }
  | { readonly outcome: 'refused'; readonly why: NoEntry };

/**
 * A provider that people can sign in through now.
 *
 * @throws {AccountRefusal} `provider_unknown` if it never existed or has no client, or if it or its organization is disabled
 */
export async function usableProvider(db: Db, providerId: string): Promise<OwnedProvider> {
  const provider = await findProvider(db, providerId);
  if (provider && isForSignIn(provider) && provider.disabledAt === undefined) return provider;
  throw new AccountRefusal('provider_unknown');
}

/** Whether people can sign in through a provider. One without a client only vouches for them to applications. */
export function isForSignIn({ clientId }: Pick<ProviderRecord, 'clientId'>): boolean {
  return clientId !== '';
}

/**
 * Finds the person whom an identity lets into the organization of its provider. Issuer and subject identify a linked account. Otherwise its
 * address must be verified by the provider or trusted by the organization, in a domain that the organization has proved; it then links a
 * member, or lets a new person join. Changes nothing, except that it records a lost proof of a domain.
 */
export async function entryOf(
  identity: UpstreamIdentity,
  provider: OwnedProvider,
  ports: EntryPorts,
): Promise<Entry> {
  const { db } = ports;
  const refused = (why: NoEntry): Entry => ({ outcome: 'refused', why });
  if (!(await isHostedHere(identity, provider, db))) return refused('domain-foreign');
  const linked = await findLinkedMember(db, { providerId: provider.id, subject: identity.subject });
  if (linked !== undefined) return { outcome: 'linked', userId: linked };
  const { email, emailProof } = identity;
  if (email === undefined || !isEmail(email)) return refused('email-missing');
  const isProved = emailProof === 'verified' || (emailProof === 'trusted' && provider.emailTrusted);
  if (!isProved) return refused('email-unverified');
  if (!(await ownsDomain(domainOf(email), provider, ports))) return refused('domain-unproved');
  const user = await findUserByEmail(db, email);
  const member = user && (await findMember(db, provider.organizationId, user.id));
  if (member) return { outcome: 'linkable', userId: member.userId };
  if (!provider.joiningRole) return refused('no-member');
  // The owner of that account may have chosen the address without proving it, and would be let in with it.
  if (user) return refused('address-taken');
  return { outcome: 'joining', email, role: provider.joiningRole };
}

/**
 * Whether an account at Google belongs to a domain of the organization. Anyone can have an account there with any address, so the
 * address alone does not prove that the company manages it. Linked accounts are checked, too: an account that has left the company
 * keeps its subject. https://developers.google.com/identity/openid-connect/openid-connect, claim `hd`
 */
async function isHostedHere(
  { hostedDomain }: UpstreamIdentity,
  { issuer, organizationId }: OwnedProvider,
  db: Db,
): Promise<boolean> {
  if (!isGoogle(new URL(issuer))) return true;
  const domains = await listDomains(db, organizationId);
  return (
    domains.length === 0 ||
    domains.some(({ domain, proof }) => proof !== undefined && domain === hostedDomain)
  );
}

/** How long the last check of a domain is valid, and how long if its name servers do not answer. */
const checkLifeSeconds = 86_400;
const unreachableLifeSeconds = 7 * 86_400;

/** Whether the organization owns a domain now. A proof by DNS is checked again once a day. */
export async function ownsDomain(
  domain: string,
  { organizationId, organization }: Pick<OwnedProvider, 'organizationId' | 'organization'>,
  { db, providerSetup, clock }: EntryPorts,
): Promise<boolean> {
  const known = await findDomain(db, organizationId, domain);
  if (!known?.proof) return false;
  const { by, checkedAt } = known.proof;
  const now = clock.now();
  if (by === 'operator' || now - checkedAt < checkLifeSeconds) return true;
  switch (await providerSetup.checkDomain(known)) {
    case 'found':
      return (await setDomainProof(db, organizationId, domain, { by, at: now })) === 'done';
    case 'unreachable':
      return now - checkedAt < unreachableLifeSeconds;
    case 'absent':
      await loseDomain(known, organization, now, db);
      return false;
  }
}

/** Ends the proof of a domain whose DNS record is gone, and adds that to the audit log. */
export async function loseDomain(
  { organizationId, domain }: Pick<OrganizationDomain, 'organizationId' | 'domain'>,
  organization: string,
  at: EpochSeconds,
  db: Db,
): Promise<void> {
  await transaction(db, async (tx) => {
    if (!(await endDomainProof(tx, organizationId, domain))) return;
    await insertAuditEvent(tx, {
      at,
      actor: 'system',
      organization,
      action: 'domain.lose',
      target: `domain:${domain}`,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
  });
}

/** The session that a sign-in through a provider opens. */
export interface MemberSession {
  readonly userId: string;
  readonly factors: 1 | 2;
  readonly through: {
    readonly organizationId: string;
    readonly providerId: string;
  } & Authentication;
  readonly from: CheckedSignIn;
}

/**
 * Signs a person in to the organization of a provider: links the account or creates the member first, where `entryOf` allows it.
 * Records the sign-in, or the refusal with its reason, in the organization's audit log.
 *
 * @throws {AccountRefusal} `member_unknown`
 */
export async function enterThrough(
  identity: UpstreamIdentity,
  provider: OwnedProvider,
  visit: Visit,
  ports: MemberSignInPorts,
): Promise<MemberSession> {
  const entry = await entryOf(identity, provider, ports);
  const at = ports.clock.now();
  const event = (action: string, actor: string, more = '') => ({
    actor,
    organization: provider.organization,
    action,
    target: `provider:${provider.id}${more}`,
    address: visit.address,
    requestId: visit.requestId,
  });
  const entered = await transaction(ports.db, async (db) => {
    const linked = await linkedBy(entry, { identity, provider, at }, db);
    if ('why' in linked) return linked;
    const { userId, action } = linked;
    const note = (name: string, more?: string) =>
      insertAuditEvent(db, { ...event(name, `user:${userId}`, more), at, outcome: 'done' });
    if (action) await note(action);
    const { subject, email, groups } = identity;
    const link = { providerId: provider.id, subject };
    // The link may have been removed since it was found.
    if (!(await noteMemberSignIn(db, link, { at, email, groups }))) return { why: 'no-member' };
    const role = await followRoleGroups(userId, groups, provider, db);
    if (role !== undefined) await note('provider.set-role', ` ${role}`);
    await note('sign-in');
    return { userId };
  });
  if ('why' in entered) {
    await ports.refusals.note(event('sign-in', 'anonymous', ` ${entered.why}`));
    throw new AccountRefusal('member_unknown', entered.why);
  }
  const { organizationId, id: providerId } = provider;
  const place = { type: 'organization', organizationId, providerId } as const;
  return {
    userId: entered.userId,
    factors: provedFactors(identity, provider),
    through: { organizationId, providerId, ...identity.authentication },
    from: checkedSignIn(identity, place, provider, ports),
  };
}

/** The sign-in that a session comes from, with its refresh token sealed. */
export function checkedSignIn(
  { subject, issuedAt, authentication, refreshToken }: UpstreamIdentity,
  place: SignInPlace,
  { sessionCheckMinutes }: Pick<ProviderChecking, 'sessionCheckMinutes'>,
  { sealing }: Pick<MemberSignInPorts, 'sealing'>,
): CheckedSignIn {
  const { providerSession } = authentication;
  return {
    place,
    subject,
    providerSession,
    issuedAt,
    sealedToken: refreshToken && sealing.seal(checkPurpose(placeKey(place), subject), refreshToken),
    checkAfterSeconds: sessionCheckMinutes * 60,
  };
}

/** How many factors a person proved to a provider of an organization. */
export function provedFactors(
  { authentication }: Pick<UpstreamIdentity, 'authentication'>,
  { countsAsTwoFactors }: Pick<ProviderRecord, 'countsAsTwoFactors'>,
): 1 | 2 {
  return countsAsTwoFactors || saysTwoFactors(authentication) ? 2 : 1;
}

/** Creates the link or member that an entry needs, within the transaction `db`; `action` names what was created. */
export async function linkedBy(
  entry: Entry,
  {
    identity: { subject },
    provider,
    at,
  }: { identity: UpstreamIdentity; provider: OwnedProvider; at: EpochSeconds },
  db: Db,
): Promise<{ userId: string; action?: 'provider.link' | 'provider.join' } | { why: NoEntry }> {
  const link = { providerId: provider.id, subject };
  const { organizationId, joiningGroups } = provider;
  switch (entry.outcome) {
    case 'refused':
      return entry;
    case 'linked':
      return entry;
    case 'linkable': {
      const { userId } = entry;
      const linked = await linkMember(db, link, { organizationId, userId }, at);
      if (linked === 'done') return { userId, action: 'provider.link' };
      return { why: linked === 'taken' ? 'other-account' : 'no-member' };
    }
    case 'joining': {
      const { email, role } = entry;
      const user = { id: newUserId(), email, createdAt: at };
      const place = { organizationId, role, groups: joiningGroups };
      switch (await insertJoiningMember(db, link, user, place)) {
        case 'taken':
          return { why: 'address-taken' };
        case 'deactivated':
          return { why: 'deactivated' };
        case 'done':
          return { userId: user.id, action: 'provider.join' };
      }
    }
  }
}

/** A group at a provider that gives a role, as `{role}={group}`; `undefined` for any other text, and for the role of owners. */
export function readRoleGroup(
  text: string,
): { readonly role: JoiningRole; readonly group: string } | undefined {
  const [role = '', ...rest] = text.split('=');
  const group = rest.join('=').trim();
  if (!isRole(role) || role === 'owner' || group === '') return undefined;
  return { role, group };
}

/**
 * Gives a member the highest role that their groups at the provider stand for. Without such a group the role stays, and owners always
 * stay owners.
 *
 * @returns the new role if it changed
 */
async function followRoleGroups(
  userId: string,
  groups: readonly string[],
  { organizationId, roleGroups }: OwnedProvider,
  db: Db,
): Promise<JoiningRole | undefined> {
  const given = roleGroups
    .map(readRoleGroup)
    .filter((entry) => entry !== undefined)
    .filter(({ group }) => groups.includes(group))
    .map(({ role }) => role)
    .toSorted((one, other) => roles.indexOf(one) - roles.indexOf(other));
  const [to] = given;
  const from = (await findMember(db, organizationId, userId))?.role;
  if (to === undefined || from === undefined || from === 'owner' || from === to) return undefined;
  return (await changeRole(db, organizationId, userId, { from, to })) === 'done' ? to : undefined;
}

/** Values of `acr` that mean at least two factors. */
const twoFactorClasses = new Set([
  'http://schemas.openid.net/pape/policies/2007/06/multi-factor',
  'https://refeds.org/profile/mfa',
  'urn:okta:loa:2fa:any',
]);

/** Whether the provider says that the person proved two factors. RFC 8176 §2 */
export function saysTwoFactors({ acr, amr }: Authentication): boolean {
  return amr.includes('mfa') || twoFactorClasses.has(acr ?? '');
}

/** Whether `userId` could enter by this identity. Only then has an owner's test of the provider succeeded. */
export function isEntryOf(entry: Entry, userId: string): boolean {
  return (entry.outcome === 'linked' || entry.outcome === 'linkable') && entry.userId === userId;
}
