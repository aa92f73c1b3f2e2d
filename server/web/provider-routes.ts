import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { join } from '#accounts/invitations';
import type { UpstreamIdentity } from '#accounts/openid-provider';
import { isEmail } from '#model/email';
import { newUserId } from '#secrets/secrets';
import { checkSecondFactorFirst } from '#accounts/second-factor';
import { isRecentProof } from '#accounts/sessions';
import { ownPath } from '#accounts/sign-in';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  provenEmail,
  upstreamNext,
  upstreamPurpose,
  type UpstreamPurpose,
} from '#accounts/single-sign-on';
import { insertAuditEvent } from '#db/audit';
import { setProviderGroups } from '#db/groups';
import { findUserIdByIdentity, linkIdentity, unlinkIdentities } from '#db/people';
import { transaction } from '#db/transaction';
import { isSlug } from '#model/slug';
import { dashboardPath } from './layout.ts';
import { redirectPage } from './messages.ts';
import { queryText, readCookie, readPageForm, seeOther, sendPage } from './page-request.ts';
import { type CurrentPerson, currentPersonOf, signedIn, visitOf } from './page-session.ts';
import { type PeopleRoutesOptions, sendOnward, signInBrowser } from './sign-in-routes.ts';

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
  const { base, people } = options;
  const { identityProvider: provider, db, clock } = people;
  if (!provider) return;
  const ports = { ...people, provider };
  const currentPerson = currentPersonOf(base, people);
  const lead = async (
    reply: FastifyReply,
    start: { purpose: UpstreamPurpose; next: string; cookieToken: string },
  ) => {
    const { href } = await beginUpstreamSignIn(start, ports);
    return sendPage(reply, redirectPage, { heading: `To ${provider.name}`, path: href });
  };
  const note = (
    request: FastifyRequest,
    what: { userId: string | undefined; action: string; outcome: 'done' | 'refused' },
    tx = db,
  ) => {
    const { address, requestId } = visitOf(request);
    const { userId, action, outcome } = what;
    const actor = userId === undefined ? 'anonymous' : `user:${userId}`;
    const where = { organization: undefined, target: provider.issuer, address, requestId };
    // Anyone can be sent there and come back without an identity, endlessly, so refusals are counted.
    if (outcome === 'refused') return people.refusals.note({ actor, action, ...where });
    return insertAuditEvent(tx, { at: clock.now(), actor, action, outcome, ...where });
  };

  /** Accepts the invitation behind `next` with a provider account that is not linked yet. */
  const joined = async (
    request: FastifyRequest,
    { identity, next }: { identity: UpstreamIdentity; next: string },
  ): Promise<string> => {
    const { issuer, subject } = identity;
    const email = provenEmail(identity);
    if (!isEmail(email)) throw new AccountRefusal('identity_invalid', 'no e-mail address');
    const linkToken = next.split('/').at(-1) ?? '';
    const made = { id: newUserId(), email, createdAt: clock.now(), identity: { issuer, subject } };
    const taken = await join(linkToken, made, visitOf(request), people);
    // An equal address links nothing: the person has to sign in here first, then link.
    if (taken !== 'done') throw new AccountRefusal('identity_unknown', 'the address is taken here');
    return made.id;
  };

  const checkChange = async ({ session }: CurrentPerson) => {
    if (!isRecentProof(session, clock.now())) throw new AccountRefusal('reauthentication_required');
    await checkSecondFactorFirst(session, people);
  };

  app.post('/sign-in/provider', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
    const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
    const next = ownPath(form.get('next'), base);
    return lead(reply, { purpose: 'sign-in', next, cookieToken });
  });

  app.post('/account/provider', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await checkChange(person);
    const { sessionToken: cookieToken } = person;
    return lead(reply, { purpose: 'link', next: '/account?done=linked', cookieToken });
  });

  app.post('/account/provider/unlink', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await checkChange(person);
    const userId = person.user.id;
    await transaction(db, async (tx) => {
      await unlinkIdentities(tx, userId, provider.issuer);
      await note(request, { userId, action: 'identity.unlink', outcome: 'done' }, tx);
    });
    return sendOnward(reply, '/account?done=unlinked', base);
  });

  app.get(providerCallbackPath, async (request, reply) => {
    const callback = new URL(request.url, base);
    if (upstreamPurpose(queryText(request, 'state')) === 'test') {
      // The page checks session, role and state. The organization is not verified yet, so nothing else follows it.
      const organization = upstreamNext(queryText(request, 'state'));
      if (!isSlug(organization)) throw new AccountRefusal('state_unknown', 'no organization');
      return seeOther(reply, signInTestPath(organization) + callback.search);
    }
    const person = await currentPerson(request);
    const isLink = upstreamPurpose(queryText(request, 'state')) === 'link';
    const cookieToken = isLink
      ? person?.sessionToken
      : readCookie(request.headers.cookie, 'latchkey-browser', base);
    try {
      if (cookieToken === undefined) throw new AccountRefusal('state_unknown', 'no cookie');
      const { identity, next } = await finishUpstreamSignIn({ callback, cookieToken }, ports);
      const { issuer, subject } = identity;
      if (isLink && person) {
        const userId = person.user.id;
        await transaction(db, async (tx) => {
          if ((await findUserIdByIdentity(tx, issuer, subject)) !== userId) {
            provenEmail(identity);
            const isLinked = await linkIdentity(tx, { issuer, subject, userId });
            if (!isLinked) throw new AccountRefusal('identity_taken');
          }
          await setProviderGroups(tx, identity, identity.groups);
          await note(request, { userId, action: 'identity.link', outcome: 'done' }, tx);
        });
        return sendOnward(reply, next, base);
      }
      const known = await findUserIdByIdentity(db, issuer, subject);
      const isJoining = upstreamPurpose(queryText(request, 'state')) === 'join';
      const userId = known ?? (isJoining ? await joined(request, { identity, next }) : undefined);
      if (userId === undefined) throw new AccountRefusal('identity_unknown');
      await setProviderGroups(db, identity, identity.groups);
      await signInBrowser(request, reply, { userId, factors: 2 }, options);
      await note(request, { userId, action: 'sign-in', outcome: 'done' });
      return sendOnward(reply, known === undefined ? '/' : next, base);
    } catch (error) {
      const action = isLink ? 'identity.link' : 'sign-in';
      // An unknown state could be sent endlessly to fill the log, so it is not recorded.
      const isNoise = error instanceof AccountRefusal && error.code === 'state_unknown';
      if (!isNoise) await note(request, { userId: person?.user.id, action, outcome: 'refused' });
      throw error;
    }
  });
}
