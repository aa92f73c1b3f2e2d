import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { hashSecret } from '#credentials/secret-format';
import { isSlug } from '#organizations/slug';
import type { FieldError } from '#pages/page';
import { resetPage } from '#pages/reset-page';
import { setUpPage } from '#pages/set-up-page';
import { isEmail } from '#people/email';
import { passwordProblem } from '#people/password-problem';
import { PeopleRefusal } from '#people/people-refusal';
import { setPassword } from '#people/set-password';
import { isSetUpOpen, setUp } from '#people/set-up';
import type { User } from '#people/user';
import { browserCsrfToken } from './browser-token.ts';
import { signInAfterPassword } from './prove-password.ts';
import { readPageForm } from './page-form.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { sendPage } from './send-page.ts';
import { sendOnward, signInBrowser } from './sign-in-browser.ts';
import { visitOf } from './visit.ts';

interface Link {
  Params: { linkToken: string };
}

/** `/set-up/{token}`, which makes the first owner, and `/reset/{token}`, which sets a new password. */
export function linkRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  setUpRoutes(app, options);
  resetRoutes(app, options);
}

function setUpRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people, firstOrganization } = options;
  type Typed = { email: string; organization: string };
  const send = (
    request: FastifyRequest<Link>,
    reply: FastifyReply,
    { email, organization }: Typed,
    errors: FieldError[],
  ) => {
    const action = `/set-up/${request.params.linkToken}`;
    const asksOrganization = firstOrganization === undefined;
    const data = { action, email, organization, asksOrganization, errors };
    const csrfToken = browserCsrfToken(request, reply, base);
    return sendPage(reply, setUpPage, data, { csrfToken, status: errors.length > 0 ? 422 : 200 });
  };

  app.get<Link>('/set-up/:linkToken', async (request, reply) => {
    if (!(await isSetUpOpen(request.params.linkToken, people)))
      throw new PeopleRefusal('set_up_over');
    return send(request, reply, { email: '', organization: firstOrganization ?? '' }, []);
  });

  app.post<Link>('/set-up/:linkToken', async (request, reply) => {
    const { linkToken } = request.params;
    const form = readPageForm(request, base, undefined);
    if (!(await isSetUpOpen(linkToken, people))) throw new PeopleRefusal('set_up_over');
    const email = form.get('email')?.trim() ?? '';
    const organization = firstOrganization ?? form.get('organization')?.trim().toLowerCase() ?? '';
    const password = form.get('password') ?? '';
    const errors: FieldError[] = [];
    if (!isSlug(organization)) {
      errors.push({
        field: 'organization',
        message: 'Use lower-case letters, digits and hyphens, at most 63, for the organization.',
      });
    }
    if (!isEmail(email)) {
      errors.push({ field: 'email', message: 'Type a whole e-mail address, as dana@example.com.' });
    }
    const problem = passwordProblem(password, form.get('repeated') ?? '', email);
    if (problem !== undefined) errors.push({ field: 'password', message: problem });
    if (errors.length > 0) return send(request, reply, { email, organization }, errors);
    const chosen = { email, password, organization };
    const owner = await setUp(linkToken, chosen, visitOf(request), people);
    await signInBrowser(request, reply, { userId: owner.id, factors: 1 }, options);
    return sendOnward(reply, '/account?done=set-up', base);
  });
}

function resetRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { users, links, clock } = people;
  const ownerOf = async (userId: string | undefined): Promise<User> => {
    const user = userId === undefined ? undefined : await users.byId(userId);
    if (!user) throw new PeopleRefusal('link_over');
    return user;
  };
  const look = async (linkToken: string) => {
    const purpose = await links.peek(hashSecret(linkToken), clock.now());
    return ownerOf(purpose?.type === 'reset' ? purpose.userId : undefined);
  };
  const send = (request: FastifyRequest<Link>, reply: FastifyReply, user: User, error?: string) => {
    const errors = error === undefined ? [] : [{ field: 'password', message: error }];
    const data = { action: `/reset/${request.params.linkToken}`, email: user.email, errors };
    const csrfToken = browserCsrfToken(request, reply, base);
    return sendPage(reply, resetPage, data, { csrfToken, status: error === undefined ? 200 : 422 });
  };

  app.get<Link>('/reset/:linkToken', async (request, reply) =>
    send(request, reply, await look(request.params.linkToken)),
  );

  app.post<Link>('/reset/:linkToken', async (request, reply) => {
    const { linkToken } = request.params;
    const form = readPageForm(request, base, undefined);
    const user = await look(linkToken);
    const password = form.get('password') ?? '';
    const problem = passwordProblem(password, form.get('repeated') ?? '', user.email);
    if (problem !== undefined) return send(request, reply, user, problem);
    // Ahead of the transaction: hashing takes its turn, and can be refused.
    const hash = await people.hashing.hash(password);
    // One transaction: where the password cannot be kept, the link stays good.
    await people.together(async (stores) => {
      if (!(await stores.links.take(hashSecret(linkToken), clock.now())))
        throw new PeopleRefusal('link_over');
      await setPassword(user, hash, visitOf(request), { ...stores, clock });
    });
    const next = '/account?done=password';
    return signInAfterPassword(request, reply, { userId: user.id, next }, options);
  });
}
