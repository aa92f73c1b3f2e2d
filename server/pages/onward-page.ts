import type { Page } from './page.ts';

/**
 * Leads on by itself after a form, where a redirect could lead to another site in the end: browsers hold
 * the form's own page responsible for all redirects after it. CSP 3 §6.4.1.1
 */
export const onwardPage: Page<{ readonly heading: string; readonly path: string }> = {
  title: ({ heading }) => heading,
  width: 'form',
  template: `<meta http-equiv="refresh" content="0; url=<%= it.path %>">
<h1><%= it.heading %></h1>
<p><a href="<%= it.path %>">Continue</a></p>`,
};
