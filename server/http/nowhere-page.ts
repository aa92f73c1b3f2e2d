import type { ErrorPageData } from '#pages/error-page';

/** What a browser shows of an address that is none of ours. */
export function nowherePage(): ErrorPageData {
  const text = 'No page has this address. Check how it is written, or start at the dashboard.';
  const next = { text: 'To the dashboard', href: '/dashboard' };
  return { heading: 'There is nothing here', text, next };
}
