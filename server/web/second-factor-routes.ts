import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { encodeQR } from 'qr';
import { AccountRefusal } from '#accounts/account-refusal';
import {
  beginTotp,
  confirmTotp,
  removeTotp,
  renewRecoveryCodes,
  type TotpEnrolment,
} from '#accounts/authenticator-app';
import {
  passkeyDomain,
  passkeyRegistrationOptions,
  passkeySignInOptions,
  registerPasskey,
  verifyPasskeySignIn,
} from '#accounts/passkeys';
import { checkSecondFactorFirst } from '#accounts/second-factor';
import { isRecentProof } from '#accounts/sessions';
import { ownPath } from '#accounts/sign-in';
import { insertAuditEvent } from '#db/audit';
import { deletePasskey } from '#db/authenticators';
import { transaction } from '#db/transaction';
import { enrolPage, recoveryCodesPage, type RecoveryCodesPageData } from './account.ts';
import { pageAssets } from './assets.ts';
import type { FieldError } from './forms.ts';
import { trustedHtml } from './html.ts';
import { readCookie, readPageForm, readPageJson, sendPage } from './page-request.ts';
import {
  browserToken,
  type CurrentPerson,
  currentPersonOf,
  signedIn,
  visitOf,
} from './page-session.ts';
import { type PeopleRoutesOptions, sendOnward, signInBrowser } from './sign-in-routes.ts';

/** `/account/second-factor`: adding and removing the authenticator app, and its recovery codes. */
export function secondFactorRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const currentPerson = currentPersonOf(base, people);
  const issuer = `Latchkey ${new URL(base).hostname}`;
  const enrol = (
    reply: FastifyReply,
    person: CurrentPerson,
    { secret, uri }: TotpEnrolment,
    errors: FieldError[] = [],
  ) => {
    const image = encodeQR(uri, 'svg', { ecc: 'medium', border: 3, optimize: true });
    const data = {
      email: person.user.email,
      qr: trustedHtml(image),
      secret: inGroups(secret),
      errors,
    };
    return sendPage(reply, enrolPage, data, { person });
  };

  const showCodes = (
    reply: FastifyReply,
    person: Pick<CurrentPerson, 'user' | 'csrfToken'>,
    data: RecoveryCodesPageData,
  ) => sendPage(reply, recoveryCodesPage, data, { person, scripts: [pageAssets().copy.path] });

  app.post('/account/second-factor', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await checkSecondFactorFirst(person.session, people);
    return enrol(reply, person, await beginTotp(person, issuer, people));
  });

  app.post('/account/second-factor/confirm', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const code = readPageForm(request, base, person).get('code') ?? '';
    await checkSecondFactorFirst(person.session, people);
    const confirmed = await confirmTotp(person, { code, issuer }, visitOf(request), people);
    if (confirmed.outcome === 'wrong') {
      const message =
        'The code is incorrect. Check the clock of your phone, then enter a new code.';
      return enrol(reply, person, confirmed.enrolment, [{ field: 'code', message }]);
    }
    const renewed = await signInBrowser(
      request,
      reply,
      { userId: person.user.id, factors: 2 },
      options,
    );
    const { codes } = confirmed;
    return showCodes(reply, { ...person, ...renewed }, { codes, isNew: true });
  });

  app.post('/account/second-factor/recovery-codes', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const codes = await renewRecoveryCodes(person, visitOf(request), people);
    return showCodes(reply, person, { codes, isNew: false });
  });

  app.post('/account/second-factor/remove', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await removeTotp(person, visitOf(request), people);
    return sendOnward(reply, '/account?done=totp-removed', base);
  });
}

function inGroups(secret: string): string {
  return secret.replaceAll(/(.{4})(?=.)/g, '$1 ');
}

/** What our script calls to add a passkey and to sign in with one. */
export function passkeyRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  if (passkeyDomain(base) === undefined) return;
  const site = { ...people, base };
  const currentPerson = currentPersonOf(base, people);
  const mustPerson = async (request: FastifyRequest): Promise<CurrentPerson> => {
    const person = await currentPerson(request);
    if (!person) throw new AccountRefusal('csrf_invalid', 'not signed in');
    return person;
  };
  const mustBeRecent = async ({ session }: Pick<CurrentPerson, 'session'>) => {
    if (!isRecentProof(session, people.clock.now()))
      throw new AccountRefusal('reauthentication_required');
    await checkSecondFactorFirst(session, people);
  };
  const note = (
    request: FastifyRequest,
    what: { userId: string; action: string; ok: boolean },
    db = people.db,
  ) => {
    const { address, requestId } = visitOf(request);
    const actor = `user:${what.userId}`;
    const where = { organization: undefined, target: 'passkey', address, requestId };
    const happened = { actor, action: what.action, ...where };
    // Anyone who knows the id of a passkey can fail endlessly to fill the log, so failures are counted.
    if (!what.ok) return people.refusals.note(happened);
    return insertAuditEvent(db, { ...happened, at: people.clock.now(), outcome: 'done' });
  };

  app.post('/account/passkeys/options', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const person = await mustPerson(request);
    readPageJson(request, base, person);
    await mustBeRecent(person);
    return passkeyRegistrationOptions(person.user, person.sessionToken, site);
  });

  app.post('/account/passkeys', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const { user, ...person } = await mustPerson(request);
    const { name, credential: answer } = readPageJson(request, base, person);
    await mustBeRecent(person);
    const made = { user, name: typeof name === 'string' ? name : '', answer };
    const happened = { userId: user.id, action: 'passkey.add' };
    const ok = await registerPasskey(made, person.sessionToken, site, (tx) =>
      note(request, { ...happened, ok: true }, tx),
    );
    if (!ok) {
      await note(request, { ...happened, ok });
      throw new AccountRefusal('passkey_invalid', 'registration not proven');
    }
    return {};
  });

  app.post<{ Params: { id: string } }>('/account/passkeys/:id/remove', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await checkSecondFactorFirst(person.session, people);
    const userId = person.user.id;
    const ok = await transaction(people.db, async (tx) => {
      const isDeleted = await deletePasskey(tx, userId, request.params.id);
      if (isDeleted) await note(request, { userId, action: 'passkey.remove', ok: true }, tx);
      return isDeleted;
    });
    if (!ok) {
      await note(request, { userId, action: 'passkey.remove', ok });
      throw new AccountRefusal('not_found');
    }
    return sendOnward(reply, '/account?done=passkey-removed', base);
  });

  app.post('/sign-in/passkey/options', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    readPageJson(request, base, undefined);
    return passkeySignInOptions(browserToken(request, reply, base), site);
  });

  app.post('/sign-in/passkey', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const { next, credential } = readPageJson(request, base, undefined);
    const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
    const { userId, isProven } = await verifyPasskeySignIn(credential, cookieToken, site);
    // Attempts with an unknown passkey could fill the log, so they are not recorded.
    if (userId !== undefined) await note(request, { userId, action: 'sign-in', ok: isProven });
    if (userId === undefined || !isProven) {
      throw new AccountRefusal('passkey_invalid', 'assertion not proven');
    }
    await signInBrowser(request, reply, { userId, factors: 2 }, options);
    return { location: ownPath(typeof next === 'string' ? next : undefined, base) };
  });
}
