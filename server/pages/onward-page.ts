import type { Page } from './page.ts';

/**
 * Leads on by itself after a form, where a redirect could lead to another site in the end: browsers hold
 * the form's own page responsible for all redirects after it. CSP 3 §6.4.1.1
 */
export const onwardPage: Page<{ readonly path: string }> = {
  title: () => 'Signed in',
  width: 'form',
  template: `<meta http-equiv="refresh" content="0; url=<%= it.path %>">
<h1>Signed in</h1>
<p><a href="<%= it.path %>">Continue</a></p>`,
};
