import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { csrfToken, randomToken, type Visit } from '#accounts/sessions';
import type { Clock } from '#model/clock';
import { findUser, type User } from '#db/people';
import { type Session, useSession } from '#db/sessions';
import type { Db } from '#db/transaction';
import type { Form } from '#oauth/forms';
import { hashSecret } from '#secrets/secrets';
import { readCookie, readPageForm, seeOther, setCookie } from './page-request.ts';

const cookieSeconds = 24 * 60 * 60;

/** The cookie that identifies a browser before sign-in. Sets one if there is none. */
export function browserToken(request: FastifyRequest, reply: FastifyReply, base: string): string {
  const known = readCookie(request.headers.cookie, 'latchkey-browser', base);
  const token = known ?? randomToken();
  const cookie = setCookie('latchkey-browser', token, { base, maxAgeSeconds: cookieSeconds });
  if (known === undefined) void reply.header('Set-Cookie', cookie);
  return token;
}

/** The CSRF token for the forms of a page before sign-in. */
export function browserCsrfToken(
  request: FastifyRequest,
  reply: FastifyReply,
  base: string,
): string {
  return csrfToken(browserToken(request, reply, base));
}

export function visitOf({ ip, id, headers }: FastifyRequest): Visit {
  return { address: ip, requestId: id, userAgent: headers['user-agent'] ?? '' };
}

/** The signed-in person who requests a page. Their session may open only one organization. */
export interface CurrentMember {
  readonly user: User;
  readonly session: Session;
  /** The value of the session cookie. It leaves the server only in that cookie. */
  readonly sessionToken: string;
  /** Goes into the forms of the page; `readPageForm` requires it. */
  readonly csrfToken: string;
}

/** The person who requests a page and signed in to their whole account. */
export interface CurrentPerson extends CurrentMember {
  readonly session: Session & { readonly through?: undefined };
}

/** Finds the person whose session cookie a request has; `undefined` if no one is signed in. */
type CurrentOf<Current> = (request: FastifyRequest) => Promise<Current | undefined>;

export interface CurrentPersonPorts {
  readonly db: Db;
  readonly clock: Clock;
}

/**
 * Finds the signed-in person, also one who signed in through a provider of an organization. For pages of organizations; pages of the account
 * use `currentPersonOf`. It looks the session up for every request, so that ending a session takes effect immediately.
 */
export function currentMemberOf(
  base: string,
  { db, clock }: CurrentPersonPorts,
): CurrentOf<CurrentMember> {
  return async ({ headers }) => {
    const sessionToken = readCookie(headers.cookie, 'latchkey', base);
    if (sessionToken === undefined) return undefined;
    const session = await useSession(db, hashSecret(sessionToken), clock.now());
    const user = session && (await findUser(db, session.userId));
    return user && { user, session, sessionToken, csrfToken: csrfToken(sessionToken) };
  };
}

/** Finds a person who signed in to their whole account. A session through a provider of an organization must not change the account. */
export function currentPersonOf(base: string, ports: CurrentPersonPorts): CurrentOf<CurrentPerson> {
  const currentMember = currentMemberOf(base, ports);
  return async (request) => {
    const member = await currentMember(request);
    return member && isWhole(member) ? member : undefined;
  };
}

function isWhole(member: CurrentMember): member is CurrentPerson {
  return member.session.through === undefined;
}

/** A request for a page; `params` are the parts of its path by name. */
export type PageRequest = FastifyRequest<{ Params: Readonly<Record<string, string>> }>;

/** Answers a request. The options that all pages of a file share come last. */
export type Handler<About extends readonly unknown[], Options> = (
  ...args: [...about: About, request: PageRequest, reply: FastifyReply, options: Options]
) => Promise<FastifyReply>;

/** Registers pages that show something, and the forms on them. */
interface Guard<About extends readonly unknown[], Options> {
  get(path: string, show: Handler<About, Options>): void;
  post(path: string, act: Handler<[...about: About, form: Form], Options>): void;
}

/** Pages of organizations, for everyone who is signed in. */
export type MemberGuard<Options> = Guard<[member: CurrentMember], Options>;
export type MemberPage<Options> = Handler<[member: CurrentMember], Options>;

/** Pages for the person who signed in to their whole account. */
export type PersonGuard<Options> = Guard<[person: CurrentPerson], Options>;
export type PersonPage<Options> = Handler<[person: CurrentPerson], Options>;
export type PersonForm<Options> = Handler<[person: CurrentPerson, form: Form], Options>;

/** Pages for every browser, with forms for people who are not signed in. */
export type VisitorGuard<Options> = Guard<[], Options>;
export type VisitorPage<Options> = Handler<[], Options>;
export type VisitorForm<Options> = Handler<[form: Form], Options>;

/**
 * Redirects to the sign-in page unless a person is signed in, and from there back to a page that was requested by GET.
 * Forms must have been sent by a page of ours to this person.
 */
export function personGuard<Options extends { readonly base: string }>(
  app: FastifyInstance,
  ports: CurrentPersonPorts,
  options: Options,
): PersonGuard<Options> {
  return signedInGuard(app, currentPersonOf(options.base, ports), options);
}

/** As `personGuard`, for everyone who is signed in, also through a provider of an organization. */
export function memberGuard<Options extends { readonly base: string }>(
  app: FastifyInstance,
  ports: CurrentPersonPorts,
  options: Options,
): MemberGuard<Options> {
  return signedInGuard(app, currentMemberOf(options.base, ports), options);
}

function signedInGuard<Current extends CurrentMember, Options extends { readonly base: string }>(
  app: FastifyInstance,
  current: CurrentOf<Current>,
  options: Options,
): Guard<[current: Current], Options> {
  const signInFirst = ({ method, url }: PageRequest, reply: FastifyReply) => {
    const back = method === 'GET' ? url : '/account';
    return seeOther(reply, `/sign-in?next=${encodeURIComponent(back)}`);
  };
  return {
    get(path, show) {
      app.get(path, async (request: PageRequest, reply) => {
        const person = await current(request);
        if (!person) return signInFirst(request, reply);
        return show(person, request, reply, options);
      });
    },
    post(path, act) {
      app.post(path, async (request: PageRequest, reply) => {
        const person = await current(request);
        if (!person) return signInFirst(request, reply);
        const form = readPageForm(request, options.base, person);
        return act(person, form, request, reply, options);
      });
    },
  };
}

/** Forms must have been sent by a page of ours to this browser before sign-in. */
export function visitorGuard<Options extends { readonly base: string }>(
  app: FastifyInstance,
  options: Options,
): VisitorGuard<Options> {
  return {
    get(path, show) {
      app.get(path, async (request: PageRequest, reply) => show(request, reply, options));
    },
    post(path, act) {
      app.post(path, async (request: PageRequest, reply) =>
        act(readPageForm(request, options.base, undefined), request, reply, options),
      );
    },
  };
}
