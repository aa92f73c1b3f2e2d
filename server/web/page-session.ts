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

/** The person who requests a page. */
export interface CurrentPerson {
  readonly user: User;
  readonly session: Session;
  /** The value of the session cookie. It leaves the server only in that cookie. */
  readonly sessionToken: string;
  /** Goes into the forms of the page; `readPageForm` requires it. */
  readonly csrfToken: string;
}

/** The person of a request's session cookie; `undefined` if not signed in. */
type CurrentPersonOf = (request: FastifyRequest) => Promise<CurrentPerson | undefined>;

export interface CurrentPersonPorts {
  readonly db: Db;
  readonly clock: Clock;
}

/** Looks the session up for every request, so that ending one takes effect immediately. */
export function currentPersonOf(base: string, { db, clock }: CurrentPersonPorts): CurrentPersonOf {
  return async ({ headers }) => {
    const sessionToken = readCookie(headers.cookie, 'latchkey', base);
    if (sessionToken === undefined) return undefined;
    const session = await useSession(db, hashSecret(sessionToken), clock.now());
    const user = session && (await findUser(db, session.userId));
    return user && { user, session, sessionToken, csrfToken: csrfToken(sessionToken) };
  };
}

/** A request for a page; `params` are the parts of its path by name. */
export type PageRequest = FastifyRequest<{ Params: Readonly<Record<string, string>> }>;

/** Answers a request. The options that all pages of a file share come last. */
export type Handler<About extends readonly unknown[], Options> = (
  ...args: [...about: About, request: PageRequest, reply: FastifyReply, options: Options]
) => Promise<FastifyReply>;

/** Shows a page to the signed-in person. */
export type PersonPage<Options> = Handler<[person: CurrentPerson], Options>;

/** Carries out a form that one of our pages sent to the signed-in person. */
export type PersonForm<Options> = Handler<[person: CurrentPerson, form: Form], Options>;

/** Registers pages that require a signed-in person, and the forms on them. */
export interface PersonGuard<Options> {
  get(path: string, show: PersonPage<Options>): void;
  post(path: string, act: PersonForm<Options>): void;
}

/** Redirects to the sign-in page unless a person is signed in, and hands `options` to every page and form. */
export function personGuard<Options extends { readonly base: string }>(
  app: FastifyInstance,
  ports: CurrentPersonPorts,
  options: Options,
): PersonGuard<Options> {
  const { base } = options;
  const currentPerson = currentPersonOf(base, ports);
  return {
    get(path, show) {
      app.get(path, async (request: PageRequest, reply) => {
        const person = await signedIn(request, reply, currentPerson);
        return person ? show(person, request, reply, options) : reply;
      });
    },
    post(path, act) {
      app.post(path, async (request: PageRequest, reply) => {
        const person = await signedIn(request, reply, currentPerson);
        if (!person) return reply;
        return act(person, readPageForm(request, base, person), request, reply, options);
      });
    },
  };
}

/** Shows a page to a browser, whether or not a person is signed in. */
export type VisitorPage<Options> = Handler<[], Options>;

/** Carries out a form that a page sent before sign-in. */
export type VisitorForm<Options> = Handler<[form: Form], Options>;

/** Registers pages that do not require a signed-in person, and the forms on them. */
export interface VisitorGuard<Options> {
  get(path: string, show: VisitorPage<Options>): void;
  post(path: string, act: VisitorForm<Options>): void;
}

/** Requires that a form comes from a page of this browser, and hands `options` to every page and form. */
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

/**
 * The signed-in person, for pages that require one. If there is none, returns `undefined` and redirects to the
 * sign-in page, and from there back to a page that was requested by GET.
 */
async function signedIn(
  request: FastifyRequest,
  reply: FastifyReply,
  currentPerson: CurrentPersonOf,
): Promise<CurrentPerson | undefined> {
  const person = await currentPerson(request);
  if (person) return person;
  const back = request.method === 'GET' ? request.url : '/account';
  void seeOther(reply, `/sign-in?next=${encodeURIComponent(back)}`);
  return undefined;
}
