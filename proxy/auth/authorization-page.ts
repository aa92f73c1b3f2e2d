import type { AuthorizationRequest } from './authorization-request.ts';
import { LoopbackError, OAuthError } from './errors.ts';
import type { Redirect, RedirectListener } from './redirect-listener.ts';

/** The page on which a person signs in. */
export type AuthorizationPage = {
  /** The page itself. Show it only to this user, who can open it in a browser on another computer. */
  url: URL;
  /** Creates an address on this host that redirects one browser to the page: `linkTo` of the {@link RedirectListener}. */
  link: () => URL;
};

/** Shows a page until `over` aborts. Resolves to the query of a redirect that the person pasted, or to `undefined`. */
export type ShowPage = (
  page: AuthorizationPage,
  redirectUri: string,
  isOurs: (query: URLSearchParams) => boolean,
  over: AbortSignal,
) => Promise<URLSearchParams | undefined>;

export type ShownPage = {
  request: AuthorizationRequest;
  listener: RedirectListener;
  show: ShowPage;
  /** The next step, which the page names at the end, if there is one. */
  next?: string | undefined;
  timeoutMs: number;
  signal: AbortSignal;
};

/**
 * Shows the page of `request`, and passes the query of its redirect to `work`. The browser shows success only after `work` is done.
 *
 * @throws {LoopbackError} or what `work` rejects with
 */
export async function throughPage<Result extends { signedInAs?: string }>(
  { request, listener, show, next, timeoutMs, signal }: ShownPage,
  work: (query: URLSearchParams) => Promise<Result>,
): Promise<Result> {
  const { url, state, redirectUri } = request;
  const isOurs = (query: URLSearchParams) => query.get('state') === state;
  // Listens before the browser opens, so that no redirect is missed.
  const redirected = listener.redirect(isOurs, { timeoutMs, signal });
  const page = { url, link: () => listener.linkTo(url) };
  const over = new AbortController();
  const pasted = show(page, redirectUri, isOurs, over.signal).then((query) =>
    query ? byHand(query) : redirected,
  );
  redirected.catch(() => undefined);
  pasted.catch(() => undefined);
  const redirect = await Promise.race([redirected, pasted]).finally(() => over.abort());
  try {
    const result = await work(redirect.query);
    await redirect.answer(done(result.signedInAs, next));
    return result;
  } catch (error) {
    await redirect.answer({ status: 400, title: 'You are not signed in', text: reason(error) });
    throw error;
  }
}

const done = (signedInAs: string | undefined, next = 'You can close this page.') => ({
  status: 200,
  title: signedInAs === undefined ? 'You are signed in' : `You are signed in as ${signedInAs}`,
  text: next,
});

function byHand(query: URLSearchParams): Redirect {
  return { query, answer: () => Promise.resolve() };
}

function reason(error: unknown): string {
  const known = error instanceof OAuthError || error instanceof LoopbackError;
  const why = known ? error.message : 'the token could not be stored on this computer';
  const { code, details } = error instanceof OAuthError ? error : {};
  if (code === 'declined') return 'You chose Deny.';
  if (code === 'denied') return `${why}.`;
  if (code === 'no_access')
    return `${why}. If you have several accounts, sign in to ${new URL(details?.endpoint ?? '').origin} with another one, then start again.`;
  return `${why}. Nothing was stored. Start again, or contact the administrator of the server.`;
}
