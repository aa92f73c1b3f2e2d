import type { Page } from './page.ts';

/** What went wrong, in words that hold no secret and nothing of others. */
export interface ErrorPageData {
  /** What happened, as a heading. */
  readonly heading: string;
  /** On what, and why, in a sentence. */
  readonly text: string;
  /** What to know before taking the next step. */
  readonly note?: string;
  /** The next step, and where to take it. */
  readonly next: { readonly text: string; readonly href: string } | undefined;
}

/** Says that something did not work. The request id is in the footer, as on every page. */
export const errorPage: Page<ErrorPageData> = {
  title: ({ heading }) => heading,
  width: 'text',
  template: `<h1><%= it.heading %></h1>
<p class="lead"><%= it.text %></p>
<% if (it.note) { %><p class="notice warning"><%= it.note %></p><% } %>
<% if (it.next) { %><p><a class="button" href="<%= it.next.href %>"><%= it.next.text %></a></p><% } %>
<p class="help">If you ask somebody for help, give them the request number below.</p>`,
};
