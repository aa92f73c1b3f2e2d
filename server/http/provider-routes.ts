import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { onwardPage } from '#pages/onward-page';
import { isEmail } from '#people/email';
import { checkSecondFactorFirst } from '#people/check-second-factor-first';
import type { UpstreamIdentity } from '#people/identity-provider';
import { join } from '#people/join';
import { ownPath } from '#people/own-path';
import { PeopleRefusal } from '#people/people-refusal';
import { isRecentProof } from '#people/recent-proof';
import { newUserId } from '#people/set-up';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  upstreamPurpose,
  type UpstreamPurpose,
} from '#people/upstream-sign-in';
import { readCookie } from './cookies.ts';
import { currentPersonOf, type CurrentPerson } from './current-person.ts';
import { readPageForm } from './page-form.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { queryText } from './query-text.ts';
import { sendPage } from './send-page.ts';
import { sendOnward, signInBrowser } from './sign-in-browser.ts';
import { signedIn } from './signed-in.ts';
import { visitOf } from './visit.ts';

/** Where the upstream provider sends people back to. */
export const providerCallbackPath = '/sign-in/provider/callback';

/**
 * Single sign-on. An account there opens one here only after somebody who was signed in here linked it:
 * an equal e-mail address proves nothing, as it is the provider's word for whose it is.
 */
export function providerRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { identityProvider: provider, identities, groupMembers, clock, audit } = people;
  if (!provider) return;
  const ports = { ...people, provider };
  const currentPerson = currentPersonOf(base, people);
  const lead = async (
    reply: FastifyReply,
    wish: { purpose: UpstreamPurpose; next: string; cookieToken: string },
  ) => {
    const { href } = await beginUpstreamSignIn(wish, ports);
    return sendPage(reply, onwardPage, { heading: `To ${provider.name}`, path: href });
  };
  const note = (
    request: FastifyRequest,
    what: { userId: string | undefined; action: string; outcome: 'done' | 'refused' },
  ) => {
    const { address, requestId } = visitOf(request);
    const { userId, action, outcome } = what;
    const actor = userId === undefined ? 'nobody' : `user:${userId}`;
    const where = { organization: undefined, target: provider.issuer, address, requestId };
    // Anybody can be sent there and come back with nothing, without end, to fill the log.
    if (outcome === 'refused') return people.refusals.note({ actor, action, ...where });
    return audit.append({ at: clock.now(), actor, action, outcome, ...where });
  };

  /** Who takes the invitation behind `next` with an account of the provider that nobody here has linked. */
  const joined = async (
    request: FastifyRequest,
    { identity, next }: { identity: UpstreamIdentity; next: string },
  ): Promise<string> => {
    const { issuer, subject, email } = identity;
    if (email === undefined || !isEmail(email)) throw new PeopleRefusal('identity_unproven');
    const linkToken = next.split('/').at(-1) ?? '';
    const made = { id: newUserId(), email, createdAt: clock.now(), identity: { issuer, subject } };
    const taken = await join(linkToken, made, visitOf(request), people);
    // An equal address links nothing: whoever has it here signs in with it first, then links.
    if (taken !== 'done') throw new PeopleRefusal('identity_unknown', 'the address is taken here');
    return made.id;
  };

  const checkChange = async ({ session }: CurrentPerson) => {
    if (!isRecentProof(session, clock.now())) throw new PeopleRefusal('proof_old');
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
    await identities.unlink(provider.issuer, person.user.id);
    await note(request, { userId: person.user.id, action: 'identity.unlink', outcome: 'done' });
    return sendOnward(reply, '/account?done=unlinked', base);
  });

  app.get(providerCallbackPath, async (request, reply) => {
    const callback = new URL(request.url, base);
    const person = await currentPerson(request);
    const isLink = upstreamPurpose(queryText(request, 'state')) === 'link';
    const cookieToken = isLink
      ? person?.sessionToken
      : readCookie(request.headers.cookie, 'latchkey-browser', base);
    try {
      if (cookieToken === undefined) throw new PeopleRefusal('state_unknown', 'no cookie');
      const { identity, next } = await finishUpstreamSignIn({ callback, cookieToken }, ports);
      const { issuer, subject } = identity;
      if (isLink && person) {
        const owner = await identities.userOf(issuer, subject);
        const isMine = owner === person.user.id;
        if (!isMine && !(await identities.link(issuer, subject, person.user.id))) {
          throw new PeopleRefusal('identity_taken');
        }
        await groupMembers.setProvided(issuer, subject, identity.groups);
        await note(request, { userId: person.user.id, action: 'identity.link', outcome: 'done' });
        return sendOnward(reply, next, base);
      }
      const known = await identities.userOf(issuer, subject);
      const isJoining = upstreamPurpose(queryText(request, 'state')) === 'join';
      const userId = known ?? (isJoining ? await joined(request, { identity, next }) : undefined);
      if (userId === undefined) throw new PeopleRefusal('identity_unknown');
      await groupMembers.setProvided(issuer, subject, identity.groups);
      await signInBrowser(request, reply, { userId, factors: 2 }, options);
      await note(request, { userId, action: 'sign-in', outcome: 'done' });
      return sendOnward(reply, known === undefined ? '/' : next, base);
    } catch (error) {
      const action = isLink ? 'identity.link' : 'sign-in';
      // A state that we never gave can be sent without end, to fill the log.
      const isNoise = error instanceof PeopleRefusal && error.code === 'state_unknown';
      if (!isNoise) await note(request, { userId: person?.user.id, action, outcome: 'refused' });
      throw error;
    }
  });
}
