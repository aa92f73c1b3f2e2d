import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { pageAssets } from '#pages/assets';
import type { FieldError } from '#pages/page';
import { signInPage } from '#pages/sign-in-page';
import { ownPath } from '#people/own-path';
import { passkeyDomain } from '#people/passkeys';
import { signIn } from '#people/sign-in';
import { browserCsrfToken } from './browser-token.ts';
import { setCookie } from './cookies.ts';
import { currentPersonOf } from './current-person.ts';
import { readPageForm } from './page-form.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { codeRoute, signInAfterPassword } from './prove-password.ts';
import { queryText } from './query-text.ts';
import { seeOther } from './see-other.ts';
import { sendPage } from './send-page.ts';
import { deviceTokenOf } from './sign-in-browser.ts';
import { visitOf } from './visit.ts';
import { waitInWords } from './wait-in-words.ts';

const notices: Readonly<Record<string, string>> = {
  'signed-out': 'You are signed out.',
};

const nobodyYet =
  'Nobody can sign in here yet. The start of this server printed a link that makes the first owner; starting it again prints a new one.';

/** `/sign-in`, by password, and `/sign-out`. */
export function signInRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const currentPerson = currentPersonOf(base, people);
  const passkeys = passkeyDomain(base) !== undefined;
  const send = (
    request: FastifyRequest,
    reply: FastifyReply,
    data: { email?: string; next: string; error?: FieldError; notice?: string | undefined },
    status = 200,
  ) => {
    const { email = '', next, error, notice } = data;
    const provider = people.identityProvider?.name;
    return sendPage(
      reply,
      signInPage,
      { email, next, errors: error ? [error] : [], notice, passkeys, provider },
      {
        status,
        csrfToken: browserCsrfToken(request, reply, base),
        scripts: passkeys ? [pageAssets().passkeys.path] : [],
      },
    );
  };

  app.get('/', async (request, reply) => {
    const person = await currentPerson(request);
    return seeOther(reply, person ? '/dashboard' : '/sign-in');
  });

  app.get('/sign-in', async (request, reply) => {
    const next = ownPath(queryText(request, 'next'), base);
    // Who is signed in comes here to prove it anew, before adding another way to sign in.
    const isAgain = queryText(request, 'again') !== undefined;
    if (!isAgain && (await currentPerson(request))) {
      return seeOther(reply, next);
    }
    const notice = (await people.users.hasAny())
      ? notices[queryText(request, 'done') ?? '']
      : nobodyYet;
    return send(request, reply, { next, notice });
  });

  app.post('/sign-in', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
    const next = ownPath(form.get('next'), base);
    const email = form.get('email') ?? '';
    const password = form.get('password') ?? '';
    const typed = { email, password, deviceToken: deviceTokenOf(request, base) };
    const result = await signIn(typed, visitOf(request), people);
    switch (result.outcome) {
      case 'signed-in':
        return signInAfterPassword(request, reply, { userId: result.user.id, next }, options);
      case 'refused': {
        const message = 'This e-mail address and password do not belong together.';
        return send(request, reply, { email, next, error: { field: 'password', message } }, 422);
      }
      case 'wait': {
        const { address, requestId } = visitOf(request);
        await people.refusals.note({
          actor: 'nobody',
          organization: undefined,
          action: 'sign-in.wait',
          target: 'password',
          address,
          requestId,
        });
        const message = `There were too many wrong tries. Wait ${waitInWords(result.waitSeconds)}, then try again.`;
        void reply.header('Retry-After', result.waitSeconds);
        return send(request, reply, { email, next, error: { field: 'password', message } }, 429);
      }
    }
  });

  codeRoute(app, options);

  app.post('/sign-out', async (request, reply) => {
    const person = await currentPerson(request);
    let next = '/';
    if (person) {
      next = ownPath(readPageForm(request, base, person).get('next'), base);
      await people.sessions.end(person.user.id, person.session.id);
      const { address, requestId } = visitOf(request);
      await people.audit.append({
        at: people.clock.now(),
        actor: `user:${person.user.id}`,
        organization: undefined,
        action: 'sign-out',
        target: person.session.id,
        address,
        requestId,
        outcome: 'done',
      });
      void reply.header('Set-Cookie', setCookie('latchkey', '', { base, maxAgeSeconds: 0 }));
    }
    const to = `/sign-in?done=signed-out${next === '/' ? '' : `&next=${encodeURIComponent(next)}`}`;
    return seeOther(reply, to);
  });
}
