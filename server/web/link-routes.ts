import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { join, openInvitation } from '#accounts/invitations';
import { isSetUpOpen, setUp } from '#accounts/one-time-links';
import { passwordProblem, setPassword } from '#accounts/passwords';
import { isEmail } from '#model/email';
import { newUserId, hashSecret } from '#secrets/secrets';
import { beginUpstreamSignIn } from '#accounts/single-sign-on';
import { findLink, takeLink } from '#db/one-time';
import { findUser, type User } from '#db/people';
import { transaction } from '#db/transaction';
import { slugOf } from '#model/slug';
import type { FieldError } from './forms.ts';
import { redirectPage } from './messages.ts';
import { readCookie, readPageForm, sendPage } from './page-request.ts';
import { browserCsrfToken, currentPersonOf, signedIn, visitOf } from './page-session.ts';
import {
  type PeopleRoutesOptions,
  sendOnward,
  signInAfterPassword,
  signInBrowser,
} from './sign-in-routes.ts';
import { knownPerson } from '#accounts/hashing-queue';
import { invitationPage, resetPage, setUpPage } from './sign-in.ts';

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
  type Typed = { email: string; organization: string; password?: string | undefined };
  const send = (
    request: FastifyRequest<Link>,
    reply: FastifyReply,
    typed: Typed,
    errors: FieldError[],
  ) => {
    const action = `/set-up/${request.params.linkToken}`;
    const asksOrganization = firstOrganization === undefined;
    const data = { ...typed, action, asksOrganization, errors };
    const csrfToken = browserCsrfToken(request, reply, base);
    return sendPage(reply, setUpPage, data, { csrfToken });
  };

  app.get<Link>('/set-up/:linkToken', async (request, reply) => {
    if (!(await isSetUpOpen(request.params.linkToken, people)))
      throw new AccountRefusal('set_up_expired');
    return send(request, reply, { email: '', organization: firstOrganization ?? '' }, []);
  });

  app.post<Link>('/set-up/:linkToken', async (request, reply) => {
    const { linkToken } = request.params;
    const form = readPageForm(request, base, undefined);
    if (!(await isSetUpOpen(linkToken, people))) throw new AccountRefusal('set_up_expired');
    const email = form.get('email')?.trim() ?? '';
    const title = firstOrganization ?? form.get('organization')?.trim() ?? '';
    const organization = slugOf(title);
    const password = form.get('password') ?? '';
    const errors: FieldError[] = [];
    if (organization === '' || title.length > 200) {
      errors.push({
        field: 'organization',
        message:
          'Enter a name of at most 200 characters with letters a to z or digits, for its URLs.',
      });
    }
    if (!isEmail(email)) {
      errors.push({
        field: 'email',
        message: 'Enter a full e-mail address. Example: dana@example.com',
      });
    }
    const problem = passwordProblem(password, form.get('repeated') ?? '', email);
    if (problem !== undefined) errors.push({ field: 'password', message: problem });
    if (errors.length > 0) {
      const kept = problem === undefined ? password : undefined;
      return send(request, reply, { email, organization: title, password: kept }, errors);
    }
    const chosen = { email, password, organization, ...(title !== organization && { title }) };
    const owner = await setUp(linkToken, chosen, visitOf(request), people);
    await signInBrowser(request, reply, { userId: owner.id, factors: 1 }, options);
    return sendOnward(reply, '/dashboard', base);
  });
}

function resetRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { db, clock } = people;
  const ownerOf = async (userId: string | undefined): Promise<User> => {
    const user = userId === undefined ? undefined : await findUser(db, userId);
    if (!user) throw new AccountRefusal('link_expired');
    return user;
  };
  const look = async (linkToken: string) => {
    const purpose = await findLink(db, hashSecret(linkToken), clock.now());
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
    const hash = await people.hashing.hash(password, knownPerson(user));
    // One transaction: where the password cannot be kept, the link stays good.
    await transaction(db, async (tx) => {
      if (!(await takeLink(tx, hashSecret(linkToken), clock.now())))
        throw new AccountRefusal('link_expired');
      await setPassword(user, hash, visitOf(request), { db: tx, clock });
    });
    const next = '/account?done=password';
    return signInAfterPassword(request, reply, { userId: user.id, next }, options);
  });
}

interface InvitationLink {
  Params: { linkToken: string };
}

/** `/invitation/{token}`: accepts an invitation to an organization. */
export function invitationRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { identityProvider: provider, clock } = people;
  const currentPerson = currentPersonOf(base, people);
  const send = async (
    request: FastifyRequest<InvitationLink>,
    reply: FastifyReply,
    {
      email = '',
      password,
      errors = [],
    }: { email?: string; password?: string | undefined; errors?: FieldError[] } = {},
  ) => {
    const { linkToken } = request.params;
    const { organization, organizationTitle, role } = await openInvitation(linkToken, people);
    const person = await currentPerson(request);
    const data = {
      action: `/invitation/${linkToken}`,
      organization: { name: organization, title: organizationTitle },
      role,
      signedInAs: person?.user.email,
      email,
      password,
      provider: provider?.name,
      errors,
    };
    if (person) return sendPage(reply, invitationPage, data, { person });
    const csrfToken = browserCsrfToken(request, reply, base);
    return sendPage(reply, invitationPage, data, { csrfToken });
  };

  app.get<InvitationLink>('/invitation/:linkToken', async (request, reply) => send(request, reply));

  app.post<InvitationLink>('/invitation/:linkToken/join', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const { linkToken } = request.params;
    const { organization } = await openInvitation(linkToken, people);
    const taken = await join(linkToken, { id: person.user.id }, visitOf(request), people);
    if (taken === 'done') return sendOnward(reply, `/dashboard/${organization}`, base);
    const message = `You are already a member of ${organization}. Another person can still use the invitation.`;
    return send(request, reply, { errors: [{ field: '', message }] });
  });

  app.post<InvitationLink>('/invitation/:linkToken/account', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
    const { linkToken } = request.params;
    const { organization } = await openInvitation(linkToken, people);
    const email = form.get('email')?.trim() ?? '';
    const password = form.get('password') ?? '';
    const errors: FieldError[] = [];
    if (!isEmail(email)) {
      errors.push({
        field: 'email',
        message: 'Enter a full e-mail address. Example: dana@example.com',
      });
    }
    const problem = passwordProblem(password, form.get('repeated') ?? '', email);
    if (problem !== undefined) errors.push({ field: 'password', message: problem });
    if (errors.length > 0) {
      const kept = problem === undefined ? password : undefined;
      return send(request, reply, { email, password: kept, errors });
    }
    // Of an organization, which may have given out very many invitations, not of one invitation.
    const whose = { known: `invited to ${organization}` };
    const passwordHash = await people.hashing.hash(password, whose);
    const made = { id: newUserId(), email, createdAt: clock.now(), passwordHash };
    const taken = await join(linkToken, made, visitOf(request), people);
    if (taken !== 'done') {
      const message =
        'An account with this address already exists. If it is yours, sign in instead.';
      return send(request, reply, { email, password, errors: [{ field: 'email', message }] });
    }
    await signInBrowser(request, reply, { userId: made.id, factors: 1 }, options);
    return sendOnward(reply, `/dashboard/${organization}`, base);
  });

  if (!provider) return;
  app.post<InvitationLink>('/invitation/:linkToken/provider', async (request, reply) => {
    readPageForm(request, base, undefined);
    const { linkToken } = request.params;
    await openInvitation(linkToken, people);
    const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
    const start = { purpose: 'join', next: `/invitation/${linkToken}`, cookieToken } as const;
    const { href } = await beginUpstreamSignIn(start, { ...people, provider });
    return sendPage(reply, redirectPage, { heading: `To ${provider.name}`, path: href });
  });
}
