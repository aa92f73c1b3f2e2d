import { html, type Html } from './html.ts';
import { layout, type Frame, type Link } from './layout.ts';

/** An error in words that reveal no secret and nothing about other people. */
export interface ErrorPageData {
  /** What happened, as a heading. */
  readonly heading: string;
  /** The subject and the reason, in a sentence. */
  readonly text: string;
  /** What to know before taking the next step. */
  readonly note?: string;
  /** The next step, and where to take it. */
  readonly next: Link | undefined;
}

/** An error page. The request id is in the footer, as on every page. */
export function errorPage({ heading, text, note, next }: ErrorPageData, frame: Frame): Html {
  const content = html`<h1>${heading}</h1>
<p class="lead">${text}</p>
${note && html`<p class="notice warning">${note}</p>`}
${next && html`<p><a class="button" href="${next.href}">${next.text}</a></p>`}
<p class="help">If you ask for help, include the request ID below.</p>`;
  return layout({ title: heading, width: 'text' }, frame, content);
}

/**
 * Redirects after a form that may lead to another site: browsers check every HTTP redirect after a form against the
 * content security policy of the form's page. CSP 3 §6.4.1.1
 */
export function redirectPage(
  { heading, path }: { readonly heading: string; readonly path: string },
  frame: Frame,
): Html {
  const content = html`<meta http-equiv="refresh" content="0; url=${path}">
<h1>${heading}</h1>
<p><a href="${path}">Continue</a></p>`;
  return layout({ title: heading, width: 'form' }, frame, content);
}
