import type { OAuthRefusal } from '#oauth/oauth-refusal';
import type { ErrorPageData } from '#pages/error-page';

/** What the page says in place of a question that cannot be put. Nothing in it is the client's own. */
export function refusedRequestPage({ message }: OAuthRefusal): ErrorPageData {
  const text = `An application sent you here with a request that cannot be answered: ${message}. Nothing was allowed. Start again from the application; if this comes back, tell whoever makes it.`;
  return { heading: 'This request cannot be answered', text, next: undefined };
}

/** What somebody sees who may not use the server that an application asks for. */
export function strangerPage(email: string, serverPath: string, back: string): ErrorPageData {
  const text = `You are signed in as ${email}, and that account cannot use ${serverPath}. Ask an owner of the organization to add you, or sign out, sign in with another account, and start again from the application.`;
  return {
    heading: 'This account has no access',
    text,
    next: { text: 'Back to the application', href: back },
  };
}

/** What a member sees whose browser has proved less than the organization asks for. */
export function secondFactorPage(serverPath: string): ErrorPageData {
  const [organization] = serverPath.split('/');
  const text = `The organization ${organization} lets nobody allow anything without a second factor. Set up an authenticator app or a passkey on your account page and sign in with it, then start again from the application.`;
  const next = { text: 'To your account', href: '/account#second-factor' };
  return { heading: 'A second factor is needed', text, next };
}

/** What a decision gets that comes twice, late, or from another browser. */
export function decidedPage(): ErrorPageData {
  const text =
    'This question was answered before, or it is too old, or another browser was asked. Start again from the application.';
  return { heading: 'Nothing was allowed', text, next: undefined };
}
