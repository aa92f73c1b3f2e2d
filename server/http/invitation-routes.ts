import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { invitationPage } from '#pages/invitation-page';
import { onwardPage } from '#pages/onward-page';
import type { FieldError } from '#pages/page';
import { isEmail } from '#people/email';
import { join, offered } from '#people/join';
import { passwordProblem } from '#people/password-problem';
import { newUserId } from '#people/set-up';
import { beginUpstreamSignIn } from '#people/upstream-sign-in';
import { browserCsrfToken } from './browser-token.ts';
import { readCookie } from './cookies.ts';
import { currentPersonOf } from './current-person.ts';
import { readPageForm } from './page-form.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { sendPage } from './send-page.ts';
import { sendOnward, signInBrowser } from './sign-in-browser.ts';
import { signedIn } from './signed-in.ts';
import { visitOf } from './visit.ts';

interface Link {
  Params: { linkToken: string };
}

/** `/invitation/{token}`: how somebody joins an organization that invited them. */
export function invitationRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { identityProvider: provider, clock } = people;
  const currentPerson = currentPersonOf(base, people);
  const send = async (
    request: FastifyRequest<Link>,
    reply: FastifyReply,
    { email = '', errors = [] }: { email?: string; errors?: FieldError[] } = {},
  ) => {
    const { linkToken } = request.params;
    const { organization, role } = await offered(linkToken, people);
    const person = await currentPerson(request);
    const data = {
      action: `/invitation/${linkToken}`,
      organization,
      role,
      signedInAs: person?.user.email,
      email,
      provider: provider?.name,
      errors,
    };
    const status = errors.length > 0 ? 422 : 200;
    if (person) return sendPage(reply, invitationPage, data, { person, status });
    const csrfToken = browserCsrfToken(request, reply, base);
    return sendPage(reply, invitationPage, data, { csrfToken, status });
  };

  app.get<Link>('/invitation/:linkToken', async (request, reply) => send(request, reply));

  app.post<Link>('/invitation/:linkToken/join', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const { linkToken } = request.params;
    const { organization } = await offered(linkToken, people);
    const taken = await join(linkToken, { id: person.user.id }, visitOf(request), people);
    if (taken === 'done') return sendOnward(reply, `/dashboard/${organization}`, base);
    const message = `You belong to ${organization} already; the invitation is still there for somebody else.`;
    return send(request, reply, { errors: [{ field: '', message }] });
  });

  app.post<Link>('/invitation/:linkToken/account', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
    const { linkToken } = request.params;
    const { organization } = await offered(linkToken, people);
    const email = form.get('email')?.trim() ?? '';
    const password = form.get('password') ?? '';
    const errors: FieldError[] = [];
    if (!isEmail(email)) {
      errors.push({ field: 'email', message: 'Type a whole e-mail address, as dana@example.com.' });
    }
    const problem = passwordProblem(password, form.get('repeated') ?? '', email);
    if (problem !== undefined) errors.push({ field: 'password', message: problem });
    if (errors.length > 0) return send(request, reply, { email, errors });
    const passwordHash = await people.hashing.hash(password);
    const made = { id: newUserId(), email, createdAt: clock.now(), passwordHash };
    const taken = await join(linkToken, made, visitOf(request), people);
    if (taken !== 'done') {
      const message = 'Somebody here has this address already. If it is you, sign in instead.';
      return send(request, reply, { email, errors: [{ field: 'email', message }] });
    }
    await signInBrowser(request, reply, { userId: made.id, factors: 1 }, options);
    return sendOnward(reply, `/dashboard/${organization}`, base);
  });

  if (!provider) return;
  app.post<Link>('/invitation/:linkToken/provider', async (request, reply) => {
    readPageForm(request, base, undefined);
    const { linkToken } = request.params;
    await offered(linkToken, people);
    const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
    const wish = { purpose: 'join', next: `/invitation/${linkToken}`, cookieToken } as const;
    const { href } = await beginUpstreamSignIn(wish, { ...people, provider });
    return sendPage(reply, onwardPage, { heading: `To ${provider.name}`, path: href });
  });
}
