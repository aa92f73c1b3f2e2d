import type { FastifyReply } from 'fastify';

import type { DashboardFrame } from '#pages/dashboard-frame';
import type { Page } from '#pages/page';
import { renderPage } from '#pages/render-page';

/** What differs between answers that are pages; all of it may be left out. */
export interface PageOptions {
  /** 200 unless given. */
  readonly status?: number;
  /** Who is signed in, for the header; its token guards the forms. See `current-person.ts`. */
  readonly person?: { readonly user: { readonly email: string }; readonly csrfToken: string };
  /** Guards the forms of a page for somebody who is not signed in. */
  readonly csrfToken?: string;
  /** Paths of our ES modules. */
  readonly scripts?: readonly string[];
  /**
   * Where the answer to a form may redirect besides us, as `https://app.example` or `cursor:`. A browser
   * checks the whole chain of redirects. CSP 3 §6.4.1.1
   */
  readonly formAction?: string;
  /** Where in the dashboard the page is. */
  readonly dashboard?: DashboardFrame | undefined;
}

/** Answers with a page that may load, frame and send nothing but what is ours. Never kept in a cache. */
export function sendPage<Data extends object>(
  reply: FastifyReply,
  page: Page<Data>,
  data: Data,
  { status = 200, person, csrfToken, scripts = [], formAction, dashboard }: PageOptions = {},
): FastifyReply {
  const html = renderPage(page, data, {
    requestId: reply.request.id,
    scripts,
    csrfToken: person?.csrfToken ?? csrfToken,
    email: person?.user.email,
    dashboard,
  });
  return reply.code(status).headers(pageHeaders(formAction)).send(html);
}

function pageHeaders(formAction: string | undefined): Record<string, string> {
  if (formAction !== undefined && /[\s;,']/.test(formAction)) {
    throw new TypeError('a form-action source with a separator in it');
  }
  const policy = [
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self' data:",
    "script-src 'self'",
    "connect-src 'self'",
    `form-action 'self'${formAction === undefined ? '' : ` ${formAction}`}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': policy.join('; '),
    'X-Frame-Options': 'DENY',
    // `no-referrer` would make browsers send `Origin: null` with our own forms. Fetch §3.2
    'Referrer-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  };
}
