import type { AnswerTarget } from '#oauth/answer-url';
import type { RightsChange } from '#oauth/decide-consent';
import type { OAuthRefusal } from '#oauth/oauth-refusal';
import { redirectPlace } from '#oauth/redirect-match';
import type { ErrorPageData } from '#pages/error-page';
import { shownName } from '#pages/plain-text';

/** What the page says in place of a question that cannot be put. Nothing in it is the client's own. */
export function refusedRequestPage({ message }: OAuthRefusal): ErrorPageData {
  const text = `An application sent you here with a request that cannot be answered: ${message}. Nothing was allowed. Start again from the application; if this comes back, tell whoever makes it.`;
  return { heading: 'This request cannot be answered', text, next: undefined };
}

/** Where a person was asked, or tried to be. */
export interface AskedAt {
  readonly email: string;
  /** `{organization}/{server}` */
  readonly serverPath: string;
}

/** What a member or a stranger sees who cannot allow anything there. */
export function notPermittedPage(
  why: 'stranger' | 'closed' | 'nothing',
  { email, serverPath }: AskedAt,
): ErrorPageData {
  const [organization = ''] = serverPath.split('/');
  switch (why) {
    case 'stranger': {
      const text = `You are signed in as ${email}, and that account cannot use ${serverPath}. Ask an owner of the organization to add you, or sign out, sign in with another account, and start again from the application.`;
      return { heading: 'This account has no access', text, next: undefined };
    }
    case 'closed': {
      const text = `The organization ${organization} accepts only applications that its administrators created, and this one registered itself. Ask an administrator to create an OAuth client for it.`;
      return { heading: 'This application is not accepted', text, next: undefined };
    }
    case 'nothing': {
      const text = `You are signed in as ${email}, and your role in ${organization} covers nothing of what the application asked for. Ask an owner or an admin to change your role, then start again from the application.`;
      return { heading: 'Your role does not allow this', text, next: undefined };
    }
  }
}

/**
 * The same page with the way back to the application, which is told what went wrong there. Of an application that
 * anybody can make up, the page says who it claims to be, and where the way leads.
 */
export function withWayBack(
  page: ErrorPageData,
  { target, location }: { readonly target: AnswerTarget; readonly location: string },
): ErrorPageData {
  if (!target.isSelfRegistered) {
    return { ...page, next: { text: 'Return to the application', href: location } };
  }
  const { host } = redirectPlace(target.redirectUri);
  const note = `The application calls itself “${shownName(target.clientName)}” and named ${host} as its address. Anybody can choose both. Return there only if you know this address and started from that application.`;
  return { ...page, note, next: { text: `Return to ${host}`, href: location } };
}

/** What a member sees whose browser has proved less than the organization asks for. */
export function secondFactorPage(serverPath: string): ErrorPageData {
  const [organization] = serverPath.split('/');
  const text = `The organization ${organization} lets nobody allow anything without a second factor. Set up an authenticator app or a passkey on your account page and sign in with it, then start again from the application.`;
  const next = { text: 'To your account', href: '/account#second-factor' };
  return { heading: 'A second factor is needed', text, next };
}

/** What somebody sees who pressed Allow after their rights had changed. */
export function rightsChangedPage(why: RightsChange, at: AskedAt): ErrorPageData {
  const heading = 'Rights changed, and nothing was allowed';
  const text = `What you can allow changed while the page was open. ${changedText(why, at)}`;
  return { heading, text, next: undefined };
}

function changedText(why: RightsChange, at: AskedAt): string {
  const { serverPath } = at;
  switch (why) {
    case 'less':
      return `At ${serverPath} it now covers less than this page showed. Start again from the application to see what you can allow now.`;
    case 'replaced':
      return `The server ${serverPath} was removed, and another one has its name now. Start again from the application if you want to allow that one.`;
    case 'second-factor':
      return secondFactorPage(serverPath).text;
    case 'stranger':
    case 'closed':
    case 'nothing':
      return notPermittedPage(why, at).text;
  }
}

/** What a decision gets that comes twice, late, or from another browser. */
export function decidedPage(): ErrorPageData {
  const text =
    'This question was answered before, or it is too old, or another browser was asked. Start again from the application.';
  return { heading: 'Nothing was allowed', text, next: undefined };
}
