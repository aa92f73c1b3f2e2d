import type { FastifyInstance, FastifyRequest } from 'fastify';

import { checkSecondFactorFirst } from '#people/check-second-factor-first';
import { ownPath } from '#people/own-path';
import { passkeyDomain, passkeys as passkeysOf } from '#people/passkeys';
import { PeopleRefusal } from '#people/people-refusal';
import { isRecentProof } from '#people/recent-proof';
import { browserToken } from './browser-token.ts';
import { readCookie } from './cookies.ts';
import { currentPersonOf, type CurrentPerson } from './current-person.ts';
import { readPageForm, readPageJson } from './page-form.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { sendOnward, signInBrowser } from './sign-in-browser.ts';
import { signedIn } from './signed-in.ts';
import { visitOf } from './visit.ts';

/** What our own script asks for: adding a passkey, and signing in by one. */
export function passkeyRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  if (passkeyDomain(base) === undefined) return;
  const passkeys = passkeysOf(base, people);
  const currentPerson = currentPersonOf(base, people);
  const mustPerson = async (request: FastifyRequest): Promise<CurrentPerson> => {
    const person = await currentPerson(request);
    if (!person) throw new PeopleRefusal('forged', 'nobody is signed in');
    return person;
  };
  const mustBeRecent = async ({ session }: Pick<CurrentPerson, 'session'>) => {
    if (!isRecentProof(session, people.clock.now())) throw new PeopleRefusal('proof_old');
    await checkSecondFactorFirst(session, people);
  };
  const note = (request: FastifyRequest, what: { userId: string; action: string; ok: boolean }) => {
    const { address, requestId } = visitOf(request);
    const actor = `user:${what.userId}`;
    const where = { organization: undefined, target: 'passkey', address, requestId };
    const happened = { actor, action: what.action, ...where };
    // Whoever knows the id of a passkey can be wrong by it without end, to fill the log.
    if (!what.ok) return people.refusals.note(happened);
    return people.audit.append({ ...happened, at: people.clock.now(), outcome: 'done' });
  };

  app.post('/account/passkeys/options', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const person = await mustPerson(request);
    readPageJson(request, base, person);
    await mustBeRecent(person);
    return passkeys.registrationOptions(person.user, person.sessionToken);
  });

  app.post('/account/passkeys', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const { user, ...person } = await mustPerson(request);
    const { name, credential: answer } = readPageJson(request, base, person);
    await mustBeRecent(person);
    const made = { user, name: typeof name === 'string' ? name : '', answer };
    const ok = await passkeys.register(made, person.sessionToken);
    await note(request, { userId: user.id, action: 'passkey.add', ok });
    if (!ok) throw new PeopleRefusal('passkey_unproven', 'registration not proven');
    return {};
  });

  app.post<{ Params: { id: string } }>('/account/passkeys/:id/remove', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await checkSecondFactorFirst(person.session, people);
    const userId = person.user.id;
    const ok = await people.passkeys.remove(userId, request.params.id);
    await note(request, { userId, action: 'passkey.remove', ok });
    if (!ok) throw new PeopleRefusal('not_yours');
    return sendOnward(reply, '/account?done=passkey-removed', base);
  });

  app.post('/sign-in/passkey/options', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    readPageJson(request, base, undefined);
    return passkeys.signInOptions(browserToken(request, reply, base));
  });

  app.post('/sign-in/passkey', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const { next, credential } = readPageJson(request, base, undefined);
    const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
    const { userId, isProven } = await passkeys.signIn(credential, cookieToken);
    // A passkey that nobody has can be sent without end, to fill the log.
    if (userId !== undefined) await note(request, { userId, action: 'sign-in', ok: isProven });
    if (userId === undefined || !isProven) {
      throw new PeopleRefusal('passkey_unproven', 'assertion not proven');
    }
    await signInBrowser(request, reply, { userId, factors: 2 }, options);
    return { location: ownPath(typeof next === 'string' ? next : undefined, base) };
  });
}
