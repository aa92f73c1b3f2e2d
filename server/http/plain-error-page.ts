import type { ErrorPageData } from '#pages/error-page';

/** A page in the making. */
export interface ErrorPageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly page: ErrorPageData;
}

/** Where to go who is not known to be signed in. */
export const toSignIn = { text: 'To the sign-in page', href: '/sign-in' };

/** A page of words, and where to go next: to the sign-in page unless given. */
export function plainErrorPage(
  status: number,
  heading: string,
  text: string,
  next = toSignIn,
): ErrorPageAnswer {
  return { status, headers: {}, page: { heading, text, next } };
}
