import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { join } from '#accounts/invitations';
import type { IdentityProvider, UpstreamIdentity } from '#accounts/openid-provider';
import { checkedSignIn } from '#accounts/organization-providers';
import { isEmail } from '#model/email';
import { newUserId } from '#secrets/secrets';
import { ownPath } from '#accounts/sign-in';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  provenEmail,
  upstreamNext,
  upstreamPurpose,
  type UpstreamPurpose,
} from '#accounts/single-sign-on';
import { setProviderGroups } from '#db/groups';
import { findUserIdByIdentity, linkIdentity, unlinkIdentities } from '#db/identities';
import { transaction } from '#db/transaction';
import { isSlug } from '#model/slug';
import { dashboardPath } from './layout.ts';
import { redirectPage } from './messages.ts';
import { queryText, readCookie, seeOther, sendPage } from './page-request.ts';
import {
  type CurrentPerson,
  currentPersonOf,
  type PersonForm,
  personGuard,
  visitOf,
  type VisitorForm,
  visitorGuard,
  type VisitorPage,
} from './page-session.ts';
import {
  checkRecentProof,
  noteAccountEvent,
  type PeoplePorts,
  type PeopleRoutesOptions,
  sendOnward,
  signInBrowser,
} from './sign-in-routes.ts';

/** The redirect URI at the OpenID provider. */
export const providerCallbackPath = '/sign-in/provider/callback';

/** Where the answer to a test sign-in is shown. */
function signInTestPath(organization: string): string {
  return `${dashboardPath(organization)}/single-sign-on/result`;
}

/**
 * Single sign-on. An account at the provider signs in to an account here only after a signed-in person has linked it.
 * An equal e-mail address proves nothing, because only the provider vouches for it.
 */
export function providerRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { people } = options;
  const { identityProvider: provider } = people;
  if (!provider) return;
  const withProvider = { ...options, people: { ...people, provider } };
  const visitor = visitorGuard(app, withProvider);
  const person = personGuard(app, people, withProvider);
  visitor.post('/sign-in/provider', startSignIn);
  person.post('/account/provider', startLink);
  person.post('/account/provider/unlink', unlink);
  visitor.get(providerCallbackPath, finish);
}

interface ProviderOptions extends PeopleRoutesOptions {
  readonly people: PeoplePorts & { readonly provider: IdentityProvider };
}

const startSignIn: VisitorForm<ProviderOptions> = (form, request, reply, { base, people }) => {
  const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
  const next = ownPath(form.get('next'), base);
  return leadToProvider(reply, { purpose: 'sign-in', next, cookieToken }, people);
};

const startLink: PersonForm<ProviderOptions> = async (
  person,
  _form,
  _request,
  reply,
  { people },
) => {
  await checkRecentProof(person, people);
  const start = { next: '/account?done=linked', cookieToken: person.sessionToken };
  return leadToProvider(reply, { purpose: 'link', ...start }, people);
};

const unlink: PersonForm<ProviderOptions> = async (person, _form, request, reply, options) => {
  const { base, people } = options;
  await checkRecentProof(person, people);
  const userId = person.user.id;
  const target = people.provider.issuer;
  await transaction(people.db, async (tx) => {
    const within = { ...people, db: tx };
    await unlinkIdentities(tx, userId, target);
    await noteAccountEvent(
      request,
      { userId, action: 'identity.unlink', target, outcome: 'done' },
      within,
    );
  });
  return sendOnward(reply, '/account?done=unlinked', base);
};

/** The browser comes back from the provider, after a sign-in, a link, an invitation or a test. */
const finish: VisitorPage<ProviderOptions> = async (request, reply, options) => {
  const { base, people } = options;
  const callback = new URL(request.url, base);
  const state = queryText(request, 'state');
  const purpose = upstreamPurpose(state);
  if (purpose === 'test') {
    // Only redirects, because the organization is not verified yet. The page checks session, role and state.
    const organization = upstreamNext(state);
    if (!isSlug(organization)) throw new AccountRefusal('state_unknown', 'no organization');
    return seeOther(reply, signInTestPath(organization) + callback.search);
  }
  const person = await currentPersonOf(base, people)(request);
  const isLink = purpose === 'link';
  const cookieToken = isLink
    ? person?.sessionToken
    : readCookie(request.headers.cookie, 'latchkey-browser', base);
  try {
    if (cookieToken === undefined) throw new AccountRefusal('state_unknown', 'no cookie');
    const { identity, next } = await finishUpstreamSignIn({ callback, cookieToken }, people);
    if (isLink && person) {
      await link(request, person, identity, people);
      return sendOnward(reply, next, base);
    }
    const { issuer, subject } = identity;
    const known = await findUserIdByIdentity(people.db, issuer, subject);
    const isJoining = purpose === 'join';
    const userId =
      known ?? (isJoining ? await joined(request, { identity, next }, people) : undefined);
    if (userId === undefined) throw new AccountRefusal('identity_unknown');
    await setProviderGroups(people.db, identity, identity.groups);
    const place = { type: 'installation', issuer } as const;
    const from = checkedSignIn(identity, place, people.provider.checking, people);
    await signInBrowser(request, reply, { userId, factors: 2, from }, options);
    const event = { userId, action: 'sign-in', target: people.provider.issuer } as const;
    await noteAccountEvent(request, { ...event, outcome: 'done' }, people);
    return sendOnward(reply, known === undefined ? '/' : next, base);
  } catch (error) {
    const action = isLink ? 'identity.link' : 'sign-in';
    // An unknown state could be sent endlessly to fill the log, so it is not recorded.
    const isNoise = error instanceof AccountRefusal && error.code === 'state_unknown';
    const event = { userId: person?.user.id, action, target: people.provider.issuer } as const;
    if (!isNoise) await noteAccountEvent(request, { ...event, outcome: 'refused' }, people);
    throw error;
  }
};

async function leadToProvider(
  reply: FastifyReply,
  start: { purpose: UpstreamPurpose; next: string; cookieToken: string },
  people: ProviderOptions['people'],
): Promise<FastifyReply> {
  const { href } = await beginUpstreamSignIn(start, people);
  return sendPage(reply, redirectPage, { heading: `To ${people.provider.name}`, path: href });
}

/** Links a provider account, unless another person has linked it. */
async function link(
  request: FastifyRequest,
  person: CurrentPerson,
  identity: UpstreamIdentity,
  people: ProviderOptions['people'],
): Promise<void> {
  const { issuer, subject } = identity;
  const userId = person.user.id;
  await transaction(people.db, async (tx) => {
    if ((await findUserIdByIdentity(tx, issuer, subject)) !== userId) {
      provenEmail(identity);
      const isLinked = await linkIdentity(tx, { issuer, subject, userId });
      if (!isLinked) throw new AccountRefusal('identity_taken');
    }
    await setProviderGroups(tx, identity, identity.groups);
    const within = { ...people, db: tx };
    const event = { userId, action: 'identity.link', target: people.provider.issuer } as const;
    await noteAccountEvent(request, { ...event, outcome: 'done' }, within);
  });
}

/** Accepts the invitation behind `next` with a provider account that is not linked yet. */
async function joined(
  request: FastifyRequest,
  { identity, next }: { identity: UpstreamIdentity; next: string },
  people: PeoplePorts,
): Promise<string> {
  const { issuer, subject } = identity;
  const email = provenEmail(identity);
  if (!isEmail(email)) throw new AccountRefusal('identity_invalid', 'no e-mail address');
  const linkToken = next.split('/').at(-1) ?? '';
  const createdAt = people.clock.now();
  const made = { id: newUserId(), email, createdAt, identity: { issuer, subject } };
  const taken = await join(linkToken, made, visitOf(request), people);
  // An equal address links nothing: the person has to sign in here first, then link.
  if (taken !== 'done') throw new AccountRefusal('identity_unknown', 'the address is taken here');
  return made.id;
}
