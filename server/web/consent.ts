import { takeRawBodies } from '#http/body';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { storedSentence } from '#model/call-contents';
import type { Form } from '#oauth/forms';
import { listOpenMemberships } from '#db/people';
import { authorizationRequest } from '#oauth/authorization-request';
import {
  askBundle,
  type BundleConsentOutcome,
  type BundleQuestion,
  decideBundle,
} from '#oauth/bundle-consent';
import {
  askConsent,
  type ConsentContext,
  type ConsentQuestion,
  decideConsent,
} from '#oauth/consent';
import { OAuthError } from '#oauth/oauth-error';
import { isPrivateScheme, isSourceHost } from '#oauth/redirect-uris';
import { scopeSentence } from '#model/scopes';
import { isSlug, partsOf } from '#model/slug';
import {
  bundleConsentPage,
  type BundlePageData,
  chosenServers,
  scopeRows,
} from './bundle-consent.ts';
import {
  decidedPage,
  noServersPage,
  notPermittedPage,
  refusedRequestPage,
  rightsChangedPage,
  secondFactorPage,
  withWayBack,
} from './consent-errors.ts';
import { type Answers, consentAnswer, consentForms } from './consent-tools.ts';
import { hiddenField, postForm } from './forms.ts';
import { displayName, html, type Html } from './html.ts';
import { companySignInPath, type Frame, isLongHeading, layout } from './layout.ts';
import { errorPage, type ErrorPageData } from './messages.ts';
import { pageErrors } from './page-errors.ts';
import { readPageForm, sendPage } from './page-request.ts';
import { titleMarkup, titleText } from './titles.ts';
import { usableTools, type UsableTools } from './usable-tools.ts';
import {
  type CurrentMember,
  currentMemberOf,
  type CurrentPersonPorts,
  visitOf,
} from './page-session.ts';

/** The names of an application. A name that the application chose itself is only a claim. */
export interface ApplicationNames {
  readonly clientName: string;
  /** The assistant that Latchkey's proxy claims to work for. */
  readonly assistant?: string | null | undefined;
}

const longestAssistant = 40;

/** The name of an application on one line: `Cursor`, or `Claude Desktop (via Latchkey)`. */
export function applicationName(names: ApplicationNames): string {
  const { name, via } = namesToShow(names);
  return `${name}${via}`;
}

function namesToShow({ clientName, assistant }: ApplicationNames): { name: string; via: string } {
  const client = displayName(clientName) || 'An unnamed application';
  const claimed = displayName(assistant ?? '', longestAssistant);
  return claimed === '' ? { name: client, via: '' } : { name: claimed, via: ` (via ${client})` };
}

/** The facts about the request, and the tools that the person can limit. */
type ConsentPageData = ReturnType<typeof pageData> & Pick<Answers, 'usable' | 'isNothingChosen'>;

/** Asks a person to allow what an application requests. */
function consentPage(data: ConsentPageData, frame: Frame): Html {
  const { application, isClaimed, organization, server, email, scopes, withheld } = data;
  const { name, via } = namesToShow(application);
  const title = titleText(server);
  const isLong = isLongHeading(`Connect ${name}${via} to ${title}?`);
  const until = new Date(data.until * 1000);
  const kept = html`${hiddenField('request', data.requestId)}${hiddenField('again', data.back)}`;
  const signOut = html`${hiddenField('next', data.back)}
<p class="help">Not you? <button class="quiet">Sign in with a different account</button></p>`;
  const content = html`<div>
<h1${isLong && html` class="long"`}>Connect <bdi>${name}</bdi>${via} to <bdi>${title}</bdi>?</h1>
<p class="lead">${titleMarkup(organization)} / ${titleMarkup(server)}</p>
${isClaimed && html`<p class="help">The application gave this name; Latchkey cannot verify it.</p>`}
</div>
${destination(data.place, name)}
<section class="group" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">It will be able to</h2>
${scopeRows(scopes)}
${withheld.map(({ text }) => html`<p class="help">The application also requested the following, which your role does not allow: ${text.charAt(0).toLowerCase()}${text.slice(1)}.</p>`)}
</section>
<p>It acts as <strong dir="auto">${email}</strong> until <time datetime="${until.toISOString()}">${until.toUTCString().slice(5, 16)}</time>, unless you withdraw access earlier on <a href="/account">your account page</a>.</p>
${data.stored !== undefined && html`<p class="notice" dir="auto">${data.stored}</p>`}
${consentForms(frame, { ...data, action: consentPath, kept })}
${postForm(frame, { action: '/sign-out' }, signOut)}`;
  return layout({ title: `Connect ${name}${via}?`, width: 'form' }, frame, content);
}

function destination({ kind, host }: ConsentPageData['place'], name: string): Html {
  switch (kind) {
    case 'site':
      return html`<p class="lead"><strong>${host}</strong> asks for access. Any site can call itself <bdi>${name}</bdi>, so check that you know this address.</p>`;
    case 'loopback':
      return html`<p class="notice warning"><strong>A program on this computer asks for access</strong> (<code>${host}</code>). Any program can call itself <bdi>${name}</bdi>. Allow it only if you started this connection yourself just now.</p>`;
    case 'program':
      return html`<p class="notice warning"><strong>The program that opens <code>${host}</code> links asks for access</strong>. Any program can call itself <bdi>${name}</bdi>. Allow it only if you started this connection yourself just now.</p>`;
  }
}

export interface ConsentRoutesOptions {
  readonly base: string;
  readonly ports: Omit<ConsentContext, 'source'> & CurrentPersonPorts;
}

const consentPath = '/oauth/consent';
/** The form has a field for each chosen tool. */
const maxFormBytes = 128 * 1024;

/** `/oauth/consent`: asks the signed-in person and carries out the decision. */
export function consentRoutes(app: FastifyInstance, options: ConsentRoutesOptions): void {
  const otherErrors = pageErrors(options.base, options.ports);
  takeRawBodies(app, maxFormBytes);
  app.setErrorHandler((error, request, reply) => {
    if (!(error instanceof OAuthError)) return otherErrors(error, request, reply);
    request.log.info(
      { code: error.code, reason: error.message, err: error.cause },
      'consent page refused',
    );
    const { code, retryAfterSeconds } = error;
    if (retryAfterSeconds !== undefined) void reply.header('Retry-After', retryAfterSeconds);
    const status = code === 'slow_down' ? 429 : 400;
    return sendPage(reply, errorPage, refusedRequestPage(error), { status });
  });
  app.get(consentPath, (request, reply) => showConsent(request, reply, options));
  app.post(consentPath, (request, reply) => carryOutDecision(request, reply, options));
}

/** `again` is the path of the page that the person answered without choosing anything. */
async function showConsent(
  request: FastifyRequest,
  reply: FastifyReply,
  { base, ports }: ConsentRoutesOptions,
  again?: string,
): Promise<FastifyReply> {
  void reply.header('Cache-Control', 'no-store');
  const person = await currentMemberOf(base, ports)(request);
  const here = again ?? request.url;
  const query = here.split('?').slice(1).join('?');
  const asked = await authorizationRequest(query, { userId: person?.user.id }, ports);
  if (asked.outcome === 'page') throw asked.refusal;
  if (asked.outcome === 'redirect') return reply.redirect(asked.location, 303);
  if (asked.outcome === 'refused') {
    const page = withWayBack(refusedRequestPage(asked.refusal), asked);
    return sendPage(reply, errorPage, page, { status: 400, ...(person && { person }) });
  }
  const back = encodeURIComponent(here);
  const context = { ...ports, source: visitOf(request) };
  const named = new URLSearchParams(query).get('organization') ?? '';
  if (asked.outcome === 'bundle' && person && !(await isElsewhere(person, named, ports))) {
    const outcome = await askBundle(asked.request, sessionOf(person), context);
    return showBundle(reply, { outcome, person, back: here, ports });
  }
  if (
    asked.outcome === 'sign-in' ||
    asked.outcome === 'bundle' ||
    !person ||
    (await isElsewhere(person, partsOf(asked.request.serverPath).organization, ports))
  ) {
    return reply.redirect(signInFor(named, back), 303);
  }
  const consent = await askConsent(asked.request, sessionOf(person), context);
  const forbidden = (page: ErrorPageData) =>
    sendPage(reply, errorPage, page, { status: 403, person });
  switch (consent.outcome) {
    case 'refused': {
      const at = { email: person.user.email, serverPath: asked.request.serverPath };
      return forbidden(withWayBack(notPermittedPage(consent.why, at), consent));
    }
    case 'second-factor':
      return forbidden(secondFactorPage(asked.request.serverPath));
    case 'single-sign-on': {
      const { organization } = partsOf(asked.request.serverPath);
      return reply.redirect(`${companySignInPath}?organization=${organization}&next=${back}`, 303);
    }
    case 'signed-out':
      return reply.redirect('/sign-in', 303);
    case 'redirect':
      return handOver(request, reply, consent.location, { base, ports });
    case 'ask': {
      const formAction = formActionOf(asked.request.redirectUri);
      const usable = await usableToolsOf(consent.question, person, ports);
      const shown = { usable, isNothingChosen: again !== undefined };
      const data = { ...pageData(consent.question, person, here), ...shown };
      const status = again === undefined ? 200 : 422;
      return sendPage(reply, consentPage, data, { person, formAction, status });
    }
  }
}

/**
 * The page where a person signs in. `organization` is a parameter of Latchkey's own: the organization whose identity provider they want to
 * use. Nothing is looked up, so unknown organizations are answered like known ones.
 */
function signInFor(organization: string, back: string): string {
  return isSlug(organization)
    ? `${companySignInPath}?organization=${organization}&next=${back}`
    : `/sign-in?next=${back}`;
}

/** Whether the session was opened through an organization and does not open the requested one, so that the person must sign in again. */
async function isElsewhere(
  { session }: CurrentMember,
  organization: string,
  { db }: ConsentRoutesOptions['ports'],
): Promise<boolean> {
  if (!session.through || !isSlug(organization)) return false;
  return (await listOpenMemberships(db, session)).every(
    (open) => open.organization !== organization,
  );
}

async function carryOutDecision(
  request: FastifyRequest,
  reply: FastifyReply,
  { base, ports }: ConsentRoutesOptions,
): Promise<FastifyReply> {
  void reply.header('Cache-Control', 'no-store');
  const person = await currentMemberOf(base, ports)(request);
  const form = readPageForm(request, base, person);
  if (!person) return reply.redirect('/sign-in', 303);
  if (form.has('back')) return carryOutChoice(request, reply, { form, person, base, ports });
  const answer = consentAnswer(form);
  const again = form.get('again') ?? '';
  if (answer.outcome === 'nothing-chosen' && again.startsWith(`${consentPath}?`)) {
    return showConsent(request, reply, { base, ports }, again);
  }
  const decision = { allow: false, ...answer, requestId: form.get('request') };
  const context = { ...ports, source: visitOf(request) };
  const decided = await decideConsent(decision, sessionOf(person), context);
  if (decided.outcome === 'redirect') {
    return handOver(request, reply, decided.location, { base, ports });
  }
  if (decided.outcome === 'signed-out') return reply.redirect('/sign-in', 303);
  const forbidden = (page: ErrorPageData) =>
    sendPage(reply, errorPage, page, { status: 403, person });
  if (decided.outcome === 'refused') return forbidden(decidedPage());
  const at = { email: person.user.email, serverPath: decided.target.serverPath };
  return forbidden(withWayBack(rightsChangedPage(decided.why, at), decided));
}

/** Shows the page on which a person chooses servers, or why there is nothing to choose. */
async function showBundle(
  reply: FastifyReply,
  {
    outcome: asked,
    person,
    back,
    ports,
  }: {
    readonly outcome: BundleConsentOutcome;
    readonly person: CurrentMember;
    readonly back: string;
    readonly ports: ConsentRoutesOptions['ports'];
  },
): Promise<FastifyReply> {
  if (asked.outcome === 'ask') {
    const { question } = asked;
    const usable = await usableAtEach(question, person, ports);
    const data = { ...bundlePageData(question, person, back), usable };
    const formAction = formActionOf(question.request.redirectUri);
    const status = question.problem === undefined ? 200 : 422;
    return sendPage(reply, bundleConsentPage, data, { person, formAction, status });
  }
  const onward = encodeURIComponent(back);
  const sso = asked.refused.find(({ why }) => why === 'single-sign-on');
  if (sso) {
    const { organization } = partsOf(sso.serverPath);
    return reply.redirect(`${companySignInPath}?organization=${organization}&next=${onward}`, 303);
  }
  // A session that is limited to one organization may be unable to open the requested ones; a new session can.
  if (person.session.through) return reply.redirect(`/sign-in?next=${onward}`, 303);
  const { email } = person.user;
  const [first] = asked.refused;
  const page = !first
    ? noServersPage(email)
    : first.why === 'second-factor' || first.why === 'single-sign-on'
      ? secondFactorPage(first.serverPath)
      : notPermittedPage(first.why, { email, serverPath: first.serverPath });
  if (asked.answer.outcome === 'refused') {
    return sendPage(reply, errorPage, withWayBack(page, asked.answer), { status: 403, person });
  }
  const next = { text: 'Return to the application', href: asked.answer.location };
  return sendPage(reply, errorPage, { ...page, next }, { status: 403, person });
}

async function carryOutChoice(
  request: FastifyRequest,
  reply: FastifyReply,
  { form, person, base, ports }: ConsentRoutesOptions & { form: Form; person: CurrentMember },
): Promise<FastifyReply> {
  const decision = {
    requestId: form.get('request'),
    allow: form.get('decision') === 'allow',
    ...chosenServers(form),
  };
  const context = { ...ports, source: visitOf(request) };
  const decided = await decideBundle(decision, sessionOf(person), context);
  switch (decided.outcome) {
    case 'redirect':
      return handOver(request, reply, decided.location, { base, ports });
    case 'signed-out':
      return reply.redirect('/sign-in', 303);
    case 'ask':
    case 'nothing':
      return showBundle(reply, {
        outcome: decided,
        person,
        back: form.get('back') ?? '/',
        ports,
      });
    case 'refused':
      return sendPage(reply, errorPage, decidedPage(), { status: 403, person });
    case 'changed': {
      const at = { email: person.user.email, serverPath: decided.serverPath };
      const page = withWayBack(rightsChangedPage(decided.why, at), decided);
      return sendPage(reply, errorPage, page, { status: 403, person });
    }
  }
}

function bundlePageData(
  question: BundleQuestion,
  { user }: CurrentMember,
  back: string,
): Omit<BundlePageData, 'usable'> {
  const { request, place } = question;
  const names = namesToShow(request);
  return {
    ...names,
    isClaimed: request.isSelfRegistered || request.assistant !== undefined,
    destination: destination(place, names.name),
    question,
    email: user.email,
    back,
  };
}

/**
 * Sends the browser back to the application, but only if its session still exists: replacing a password ends
 * sessions first and revokes grants last.
 */
async function handOver(
  request: FastifyRequest,
  reply: FastifyReply,
  location: string,
  { base, ports }: ConsentRoutesOptions,
): Promise<FastifyReply> {
  const person = await currentMemberOf(base, ports)(request);
  return reply.redirect(person ? location : '/sign-in', 303);
}

function sessionOf({ user, session }: CurrentMember) {
  const { id: sessionId, factors, through } = session;
  return { userId: user.id, sessionId, factors, through };
}

/** The tools that the person can limit, for each server of a bundle. */
async function usableAtEach(
  { request: { clientId }, choices }: BundleQuestion,
  { user: { id: userId } }: CurrentMember,
  ports: ConsentRoutesOptions['ports'],
): Promise<BundlePageData['usable']> {
  const all = new Map<string, UsableTools>();
  for (const { serverPath, terms } of choices) {
    if (!terms.scopes.includes('mcp:tools:execute')) continue;
    all.set(terms.serverId, await usableTools({ userId, clientId, serverPath }, ports));
  }
  return all;
}

/** The tools that the person can limit; `undefined` for an application that may only list tools. */
async function usableToolsOf(
  { request: { clientId, serverPath }, terms }: ConsentQuestion,
  { user: { id: userId } }: CurrentMember,
  ports: ConsentRoutesOptions['ports'],
): Promise<UsableTools | undefined> {
  if (!terms.scopes.includes('mcp:tools:execute')) return undefined;
  return usableTools({ userId, clientId, serverPath }, ports);
}

function pageData(
  { request, terms, place, until, requestId }: ConsentQuestion,
  { user }: CurrentMember,
  back: string,
) {
  const { organization, server } = partsOf(request.serverPath);
  return {
    application: request,
    // Whether the application chose the name itself, rather than an administrator or this server.
    isClaimed: request.isSelfRegistered || request.assistant !== undefined,
    organization: { name: organization, title: terms.titles.organization },
    server: { name: server, title: terms.titles.server },
    email: user.email,
    scopes: terms.scopes.map(scopeSentence),
    // Requested, but beyond the person's role.
    withheld: terms.withheld.map(scopeSentence),
    place,
    until,
    stored: storedSentence(displayName(terms.titles.organization) || organization, terms.contents),
    requestId,
    // This page's own path, for people who sign in with a different account.
    back,
  };
}

/** The form target for the content security policy; the scheme if the host is not allowed there. CSP 3 §2.3.1 */
function formActionOf(redirectUri: string): string {
  const { protocol, origin, hostname } = new URL(redirectUri);
  return !isPrivateScheme(protocol) && isSourceHost(hostname) ? origin : protocol;
}
