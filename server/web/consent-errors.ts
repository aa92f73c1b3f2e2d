import type { AnswerTarget } from '#model/authorization-request';
import type { RightsChange } from '#oauth/consent';
import type { OAuthError } from '#oauth/oauth-error';
import type { notPermittedWords } from '#oauth/permitted-scopes';
import { redirectPlace } from '#oauth/redirect-uris';
import { partsOf } from '#model/slug';
import { displayName } from './html.ts';
import type { ErrorPageData } from './messages.ts';

/** The page for an invalid authorization request. Of all text that the client controls, it shows at most a host name. */
export function refusedRequestPage({ message, unreachableHost: host }: OAuthError): ErrorPageData {
  if (host !== undefined) {
    const text =
      'The application describes itself there, so this server does not know it, and nothing was allowed. If this server has no access to the internet, ask its operator to start it with --no-client-metadata-documents and --dynamic-registration, then start again from the application. Otherwise, try again in a minute.';
    return { heading: `This server cannot reach ${host}`, text, next: undefined };
  }
  const text = `An application sent you here with an invalid request: ${message}. Nothing was allowed. Start again from the application. If this happens again, contact its developer.`;
  return { heading: 'This request is not valid', text, next: undefined };
}

/** The person who was asked, and the server to which the request applies. */
interface AskedAt {
  readonly email: string;
  /** `{organization}/{server}` */
  readonly serverPath: string;
}

/** The page for a person, member or not, who cannot grant anything at the server. */
export function notPermittedPage(
  why: keyof typeof notPermittedWords,
  { email, serverPath }: AskedAt,
): ErrorPageData {
  const { organization } = partsOf(serverPath);
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
 * Adds to an error page a link that returns to the application and reports the error to it. If the application registered
 * itself, the page calls its name a claim and shows the target of the link.
 */
export function withWayBack(
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
export function secondFactorPage(serverPath: string): ErrorPageData {
  const { organization } = partsOf(serverPath);
  const text = `The organization ${organization} requires a second factor before you can allow anything. Set up an authenticator app or a passkey on your account page and sign in with it, then start again from the application.`;
  const next = { text: 'Go to your account', href: '/account#second-factor' };
  return { heading: 'Second factor required', text, next };
}

/** The page for a person who allowed the request after their rights had changed. */
export function rightsChangedPage(why: RightsChange, at: AskedAt): ErrorPageData {
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
      const { organization } = partsOf(serverPath);
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
export function decidedPage(): ErrorPageData {
  const text =
    'You already answered this request, or it is too old, or it was opened in another browser. Start again from the application.';
  return { heading: 'Nothing was allowed', text, next: undefined };
}

/** The page for a person who could choose none of several servers. */
export function noServersPage(email: string): ErrorPageData {
  const text = `You are signed in as ${email}, and this account cannot use any server that the application may reach. Ask an administrator of your organization for access, then start again from the application.`;
  return { heading: 'There is no server to choose', text, next: undefined };
}
