import type { ErrorPageData } from '#pages/error-page';

/** A page in the making. */
export interface ErrorPageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly page: ErrorPageData;
}

/** A page of words, and where to go next: to the sign-in page unless given. */
export function plainErrorPage(
  status: number,
  heading: string,
  text: string,
  next = { text: 'To the sign-in page', href: '/sign-in' },
): ErrorPageAnswer {
  return { status, headers: {}, page: { heading, text, next } };
}
