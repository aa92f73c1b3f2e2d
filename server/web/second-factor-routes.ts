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
import { ownPath } from '#accounts/sign-in';
import { deletePasskey } from '#db/authenticators';
import { transaction } from '#db/transaction';
import { enrolPage, recoveryCodesPage, type RecoveryCodesPageData } from './account.ts';
import { pageAssets } from './assets.ts';
import type { FieldError } from './forms.ts';
import { trustedHtml } from './html.ts';
import { readCookie, readPageJson, sendPage } from './page-request.ts';
import { browserToken, type CurrentPerson, currentPersonOf, visitOf } from './page-session.ts';
import {
  type AccountForm,
  type AccountGuards,
  checkRecentProof,
  noteAccountEvent,
  type PeopleRoutesOptions,
  sendOnward,
  signInBrowser,
} from './sign-in-routes.ts';

/** `/account/second-factor`: adding and removing the authenticator app, and its recovery codes. */
export function secondFactorRoutes(guard: AccountGuards['person']): void {
  guard.post('/account/second-factor', startEnrolment);
  guard.post('/account/second-factor/confirm', confirmEnrolment);
  guard.post('/account/second-factor/recovery-codes', replaceRecoveryCodes);
  guard.post('/account/second-factor/remove', removeApp);
}

const startEnrolment: AccountForm = async (person, _form, _request, reply, { base, people }) => {
  await checkSecondFactorFirst(person.session, people);
  return sendEnrolment(person, reply, await beginTotp(person, issuerOf(base), people));
};

const confirmEnrolment: AccountForm = async (person, form, request, reply, options) => {
  const { base, people } = options;
  await checkSecondFactorFirst(person.session, people);
  const typed = { code: form.get('code') ?? '', issuer: issuerOf(base) };
  const confirmed = await confirmTotp(person, typed, visitOf(request), people);
  if (confirmed.outcome === 'wrong') {
    const message = 'The code is incorrect. Check the clock of your phone, then enter a new code.';
    return sendEnrolment(person, reply, confirmed.enrolment, [{ field: 'code', message }]);
  }
  const who = { userId: person.user.id, factors: 2 } as const;
  const renewed = await signInBrowser(request, reply, who, options);
  return sendCodes({ ...person, ...renewed }, reply, { codes: confirmed.codes, isNew: true });
};

const replaceRecoveryCodes: AccountForm = async (person, _form, request, reply, { people }) => {
  const codes = await renewRecoveryCodes(person, visitOf(request), people);
  return sendCodes(person, reply, { codes, isNew: false });
};

const removeApp: AccountForm = async (person, _form, request, reply, { base, people }) => {
  await removeTotp(person, visitOf(request), people);
  return sendOnward(reply, '/account?done=totp-removed', base);
};

/** The name of this server in authenticator apps. */
function issuerOf(base: string): string {
  return `Latchkey ${new URL(base).hostname}`;
}

function sendEnrolment(
  person: CurrentPerson,
  reply: FastifyReply,
  { secret, uri }: TotpEnrolment,
  errors: FieldError[] = [],
) {
  const image = encodeQR(uri, 'svg', { ecc: 'medium', border: 3, optimize: true });
  const { email } = person.user;
  const data = { email, qr: trustedHtml(image), secret: inGroups(secret), errors };
  return sendPage(reply, enrolPage, data, { person });
}

function inGroups(secret: string): string {
  return secret.replaceAll(/(.{4})(?=.)/g, '$1 ');
}

function sendCodes(
  person: Pick<CurrentPerson, 'user' | 'csrfToken'>,
  reply: FastifyReply,
  data: RecoveryCodesPageData,
) {
  return sendPage(reply, recoveryCodesPage, data, { person, scripts: [pageAssets().copy.path] });
}

/** Answers a script of ours in JSON. */
type ScriptAnswer = (
  request: FastifyRequest,
  reply: FastifyReply,
  options: PeopleRoutesOptions,
) => Promise<object>;

/** The routes that our script calls to add a passkey and to sign in with one, and the form that removes a passkey. */
export function passkeyRoutes(
  app: FastifyInstance,
  guard: AccountGuards['person'],
  options: PeopleRoutesOptions,
): void {
  if (passkeyDomain(options.base) === undefined) return;
  const script = (path: string, answer: ScriptAnswer) =>
    app.post(path, (request, reply) =>
      answer(request, reply.header('Cache-Control', 'no-store'), options),
    );
  script('/account/passkeys/options', registrationOptions);
  script('/account/passkeys', addPasskey);
  guard.post('/account/passkeys/:id/remove', removePasskey);
  script('/sign-in/passkey/options', signInOptions);
  script('/sign-in/passkey', signInByPasskey);
}

const registrationOptions: ScriptAnswer = async (request, _reply, { base, people }) => {
  const person = await mustPerson(request, { base, people });
  readPageJson(request, base, person);
  await checkRecentProof(person, people);
  return passkeyRegistrationOptions(person.user, person.sessionToken, { ...people, base });
};

const addPasskey: ScriptAnswer = async (request, _reply, { base, people }) => {
  const { user, ...person } = await mustPerson(request, { base, people });
  const { name, credential: answer } = readPageJson(request, base, person);
  await checkRecentProof(person, people);
  const made = { user, name: typeof name === 'string' ? name : '', answer };
  const event = { userId: user.id, action: 'passkey.add', target: 'passkey' };
  const ok = await registerPasskey(made, person.sessionToken, { ...people, base }, (tx) =>
    noteAccountEvent(request, { ...event, outcome: 'done' }, { ...people, db: tx }),
  );
  if (!ok) {
    await noteAccountEvent(request, { ...event, outcome: 'refused' }, people);
    throw new AccountRefusal('passkey_invalid', 'registration not proven');
  }
  return {};
};

const removePasskey: AccountForm = async (person, _form, request, reply, { base, people }) => {
  await checkSecondFactorFirst(person.session, people);
  const userId = person.user.id;
  const event = { userId, action: 'passkey.remove', target: 'passkey' };
  const ok = await transaction(people.db, async (tx) => {
    const isDeleted = await deletePasskey(tx, userId, request.params['id'] ?? '');
    const within = { ...people, db: tx };
    if (isDeleted) await noteAccountEvent(request, { ...event, outcome: 'done' }, within);
    return isDeleted;
  });
  if (!ok) {
    await noteAccountEvent(request, { ...event, outcome: 'refused' }, people);
    throw new AccountRefusal('not_found');
  }
  return sendOnward(reply, '/account?done=passkey-removed', base);
};

const signInOptions: ScriptAnswer = async (request, reply, { base, people }) => {
  readPageJson(request, base, undefined);
  return passkeySignInOptions(browserToken(request, reply, base), { ...people, base });
};

const signInByPasskey: ScriptAnswer = async (request, reply, options) => {
  const { base, people } = options;
  const { next, credential } = readPageJson(request, base, undefined);
  const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
  const site = { ...people, base };
  const { userId, isProven } = await verifyPasskeySignIn(credential, cookieToken, site);
  if (userId !== undefined) {
    const outcome = isProven ? 'done' : 'refused';
    const event = { userId, action: 'sign-in', target: 'passkey', outcome } as const;
    await noteAccountEvent(request, event, people);
  }
  // Attempts with an unknown passkey could fill the log, so they are not recorded.
  if (userId === undefined || !isProven) {
    throw new AccountRefusal('passkey_invalid', 'assertion not proven');
  }
  await signInBrowser(request, reply, { userId, factors: 2 }, options);
  return { location: ownPath(typeof next === 'string' ? next : undefined, base) };
};

async function mustPerson(
  request: FastifyRequest,
  { base, people }: Pick<PeopleRoutesOptions, 'base' | 'people'>,
): Promise<CurrentPerson> {
  const person = await currentPersonOf(base, people)(request);
  if (!person) throw new AccountRefusal('csrf_invalid', 'not signed in');
  return person;
}
