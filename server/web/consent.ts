import { takeRawBodies } from '#http/body';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { storedSentence } from '#model/call-contents';
import type { EpochSeconds } from '#model/clock';
import { listOpenMemberships } from '#db/people';
import { type AnswerTarget, type AuthorizationRequest } from '#model/authorization-request';
import { authorizationRequest } from '#oauth/authorization-request';
import {
  askConsent,
  type ConsentContext,
  type ConsentQuestion,
  decideConsent,
  type RightsChange,
} from '#oauth/consent';
import { OAuthError } from '#oauth/oauth-error';
import type { notPermittedWords } from '#oauth/permitted-scopes';
import { isPrivateScheme, isSourceHost, redirectPlace } from '#oauth/redirect-uris';
import { scopeSentence, type ScopeSentence } from '#model/scopes';
import { hiddenField, postForm } from './forms.ts';
import { displayName, html, type Html } from './html.ts';
import { companySignInPath, type Frame, isLongHeading, layout } from './layout.ts';
import { errorPage, type ErrorPageData } from './messages.ts';
import { pageErrors } from './page-errors.ts';
import { usualFormBytes, readPageForm, sendPage } from './page-request.ts';
import { type Titled, titleMarkup, titleText } from './titles.ts';
import {
  type CurrentMember,
  currentMemberOf,
  type CurrentPersonPorts,
  visitOf,
} from './page-session.ts';

/** What an application is called. Everything that it chose itself is a claim. */
export interface ApplicationNames {
  readonly clientName: string;
  /** The assistant that our proxy says it works for. */
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

/** The application, the requested scopes, the person, and where the answer goes. */
interface ConsentPageData {
  readonly application: ApplicationNames;
  /** Whether the application chose the name itself, rather than an administrator or this server. */
  readonly isClaimed: boolean;
  readonly organization: Titled;
  readonly server: Titled;
  readonly email: string;
  readonly scopes: readonly ScopeSentence[];
  /** Requested, but beyond the person's role. */
  readonly withheld: readonly ScopeSentence[];
  /** Where the answer goes: a site, a program on this computer, or the program registered for a scheme. */
  readonly place: { readonly kind: 'site' | 'loopback' | 'program'; readonly host: string };
  readonly until: EpochSeconds;
  /** Says that arguments or results of calls are stored; `undefined` if they are not. */
  readonly stored: string | undefined;
  readonly requestId: string;
  /** This page's own path, for people who sign in with a different account. */
  readonly back: string;
}

/** Asks a person to allow what an application requests. */
function consentPage(data: ConsentPageData, frame: Frame): Html {
  const { application, isClaimed, organization, server, email, scopes, withheld } = data;
  const { name, via } = namesToShow(application);
  const title = titleText(server);
  const isLong = isLongHeading(`Connect ${name}${via} to ${title}?`);
  const until = new Date(data.until * 1000);
  const decision = html`${hiddenField('request', data.requestId)}
<div class="actions even"><button class="primary" name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></div>`;
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
<ul class="rows">
${scopes.map(
  ({ text, risk }) =>
    html`<li>
<div>${text}${risk && html`<p class="help">${risk}</p>`}</div>
${risk && html`<span class="badge care">Sensitive</span>`}
</li>`,
)}
</ul>
${withheld.map(({ text }) => html`<p class="help">The application also requested the following, which your role does not allow: ${text.charAt(0).toLowerCase()}${text.slice(1)}.</p>`)}
</section>
<p>It acts as <strong dir="auto">${email}</strong> until <time datetime="${until.toISOString()}">${until.toUTCString().slice(5, 16)}</time>, unless you withdraw access earlier on <a href="/account">your account page</a>.</p>
${data.stored !== undefined && html`<p class="notice" dir="auto">${data.stored}</p>`}
${postForm(frame, { action: '/oauth/consent' }, decision)}
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

/** `/oauth/consent`: asks the signed-in person and carries out the decision. */
export function consentRoutes(app: FastifyInstance, options: ConsentRoutesOptions): void {
  const otherErrors = pageErrors(options.base, options.ports);
  takeRawBodies(app, usualFormBytes);
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
  app.get('/oauth/consent', (request, reply) => showConsent(request, reply, options));
  app.post('/oauth/consent', (request, reply) => carryOutDecision(request, reply, options));
}

async function showConsent(
  request: FastifyRequest,
  reply: FastifyReply,
  { base, ports }: ConsentRoutesOptions,
): Promise<FastifyReply> {
  void reply.header('Cache-Control', 'no-store');
  const person = await currentMemberOf(base, ports)(request);
  const query = request.url.split('?').slice(1).join('?');
  const asked = await authorizationRequest(query, { userId: person?.user.id }, ports);
  if (asked.outcome === 'page') throw asked.refusal;
  if (asked.outcome === 'redirect') return reply.redirect(asked.location, 303);
  if (asked.outcome === 'refused') {
    const page = withWayBack(refusedRequestPage(asked.refusal), asked);
    return sendPage(reply, errorPage, page, { status: 400, ...(person && { person }) });
  }
  const back = encodeURIComponent(request.url);
  if (asked.outcome === 'sign-in' || !person || (await isElsewhere(person, asked, ports))) {
    return reply.redirect(`/sign-in?next=${back}`, 303);
  }
  const context = { ...ports, source: visitOf(request) };
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
      const [organization = ''] = asked.request.serverPath.split('/');
      return reply.redirect(`${companySignInPath}?organization=${organization}&next=${back}`, 303);
    }
    case 'signed-out':
      return reply.redirect('/sign-in', 303);
    case 'redirect':
      return handOver(request, reply, consent.location, { base, ports });
    case 'ask': {
      const formAction = formActionOf(asked.request.redirectUri);
      const data = pageData(consent.question, person, request.url);
      return sendPage(reply, consentPage, data, { person, formAction });
    }
  }
}

/** Whether the session was opened through another organization than the one that is asked for: its member must sign in here. */
async function isElsewhere(
  { session }: CurrentMember,
  { request: { serverPath } }: { readonly request: Pick<AuthorizationRequest, 'serverPath'> },
  { db }: ConsentRoutesOptions['ports'],
): Promise<boolean> {
  if (!session.through) return false;
  const [organization] = serverPath.split('/');
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
  const decision = { requestId: form.get('request'), allow: form.get('decision') === 'allow' };
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

function pageData(
  { request, terms, place, until, requestId }: ConsentQuestion,
  { user }: CurrentMember,
  back: string,
): ConsentPageData {
  const [organization = '', server = ''] = request.serverPath.split('/');
  return {
    application: request,
    isClaimed: request.isSelfRegistered || request.assistant !== undefined,
    organization: { name: organization, title: terms.titles.organization },
    server: { name: server, title: terms.titles.server },
    email: user.email,
    scopes: terms.scopes.map(scopeSentence),
    withheld: terms.withheld.map(scopeSentence),
    place,
    until,
    stored: storedSentence(displayName(terms.titles.organization) || organization, terms.contents),
    requestId,
    back,
  };
}

/** The form target for the content security policy; the scheme if the host is not allowed there. CSP 3 §2.3.1 */
function formActionOf(redirectUri: string): string {
  const { protocol, origin, hostname } = new URL(redirectUri);
  return !isPrivateScheme(protocol) && isSourceHost(hostname) ? origin : protocol;
}

/** The page for an invalid authorization request. Of what the client controls, it shows a host name at most. */
function refusedRequestPage({ message, unreachableHost: host }: OAuthError): ErrorPageData {
  if (host !== undefined) {
    const text =
      'The application describes itself there, so this server does not know it, and nothing was allowed. If this server has no access to the internet, ask its operator to start it with --no-client-metadata-documents and --dynamic-registration, then start again from the application. Otherwise, try again in a minute.';
    return { heading: `This server cannot reach ${host}`, text, next: undefined };
  }
  const text = `An application sent you here with an invalid request: ${message}. Nothing was allowed. Start again from the application. If this happens again, contact its developer.`;
  return { heading: 'This request is not valid', text, next: undefined };
}

/** The request that a person was asked about. */
interface AskedAt {
  readonly email: string;
  /** `{organization}/{server}` */
  readonly serverPath: string;
}

/** The page for a member, or someone who is not, who cannot grant anything there. */
function notPermittedPage(
  why: keyof typeof notPermittedWords,
  { email, serverPath }: AskedAt,
): ErrorPageData {
  const [organization = ''] = serverPath.split('/');
  switch (why) {
    case 'stranger': {
      const text = `You are signed in as ${email}, and this account cannot use ${serverPath}. Ask an owner of the organization to add you. Or sign in with a different account and start again from the application.`;
      return { heading: 'This account has no access', text, next: undefined };
    }
    case 'closed': {
      const text = `The organization ${organization} accepts only applications that its administrators created, and this one registered itself. Ask an administrator to create an OAuth client for it.`;
      return { heading: 'This application is not accepted', text, next: undefined };
    }
    case 'proxy-closed': {
      const text = `The organization ${organization} does not let its members connect Latchkey’s own proxy. Ask an owner to turn that on in the settings of the organization.`;
      return { heading: 'Latchkey’s proxy is turned off', text, next: undefined };
    }
    case 'nothing': {
      const text = `You are signed in as ${email}, and your role in ${organization} does not allow anything that the application requested. Ask an owner or an admin to change your role, then start again from the application.`;
      return { heading: 'Your role does not allow this', text, next: undefined };
    }
  }
}

/**
 * The same page with a link back to the application that reports the error. If the application registered itself, the
 * page names it as a claim and shows where the link leads.
 */
function withWayBack(
  page: ErrorPageData,
  { target, location }: { readonly target: AnswerTarget; readonly location: string },
): ErrorPageData {
  if (!target.isSelfRegistered) {
    return { ...page, next: { text: 'Return to the application', href: location } };
  }
  const { host } = redirectPlace(target.redirectUri);
  const note = `The application calls itself “${displayName(target.clientName)}” and named ${host} as its address. Anyone can choose both. Return there only if you know this address and started from that application.`;
  return { ...page, note, next: { text: `Return to ${host}`, href: location } };
}

/** The page for a member who signed in with fewer factors than the organization requires. */
function secondFactorPage(serverPath: string): ErrorPageData {
  const [organization] = serverPath.split('/');
  const text = `The organization ${organization} requires a second factor before you can allow anything. Set up an authenticator app or a passkey on your account page and sign in with it, then start again from the application.`;
  const next = { text: 'Go to your account', href: '/account#second-factor' };
  return { heading: 'Second factor required', text, next };
}

/** The page for a person who allowed the request after their rights had changed. */
function rightsChangedPage(why: RightsChange, at: AskedAt): ErrorPageData {
  const heading = 'Your permissions changed, and nothing was allowed';
  const text = `What you can allow changed while the page was open. ${changedText(why, at)}`;
  return { heading, text, next: undefined };
}

function changedText(why: RightsChange, at: AskedAt): string {
  const { serverPath } = at;
  switch (why) {
    case 'less':
      return `At ${serverPath}, the permissions you can give are now fewer than those on the page. Start again from the application to see which ones are left.`;
    case 'replaced':
      return `The server ${serverPath} was removed, and another server has its name now. Start again from the application if you want to connect to that one.`;
    case 'second-factor':
      return secondFactorPage(serverPath).text;
    case 'single-sign-on': {
      const [organization] = serverPath.split('/');
      return `The organization ${organization} now requires single sign-on. Start again from the application, and sign in with your work account.`;
    }
    case 'stranger':
    case 'closed':
    case 'proxy-closed':
    case 'nothing':
      return notPermittedPage(why, at).text;
  }
}

/** The page for a decision that comes twice, late, or from another browser. */
function decidedPage(): ErrorPageData {
  const text =
    'You already answered this request, or it is too old, or it was opened in another browser. Start again from the application.';
  return { heading: 'Nothing was allowed', text, next: undefined };
}
