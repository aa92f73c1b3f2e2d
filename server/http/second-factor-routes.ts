import type { FastifyInstance, FastifyReply } from 'fastify';
import { encodeQR } from 'qr';

import { pageAssets } from '#pages/assets';
import { enrolPage } from '#pages/enrol-page';
import type { FieldError } from '#pages/page';
import { recoveryCodesPage, type RecoveryCodesPageData } from '#pages/recovery-codes-page';
import { checkSecondFactorFirst } from '#people/check-second-factor-first';
import {
  beginTotp,
  confirmTotp,
  removeTotp,
  renewRecoveryCodes,
  type TotpEnrolment,
} from '#people/enrol-totp';
import { currentPersonOf, type CurrentPerson } from './current-person.ts';
import { readPageForm } from './page-form.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { sendPage } from './send-page.ts';
import { sendOnward, signInBrowser } from './sign-in-browser.ts';
import { signedIn } from './signed-in.ts';
import { visitOf } from './visit.ts';

/** `/account/second-factor`: turning the authenticator app on and off, and its recovery codes. */
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
    const qr = encodeQR(uri, 'svg', { ecc: 'medium', border: 3, optimize: true });
    const data = { email: person.user.email, qr, secret: inGroups(secret), errors };
    return sendPage(reply, enrolPage, data, { person, status: errors.length > 0 ? 422 : 200 });
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
      const message = 'This is not the code of this moment. Check the clock of your phone.';
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
