import type { FieldError, Page } from './page.ts';

/** What goes into the app, and what is wrong with the code that was typed. */
export interface EnrolPageData {
  readonly email: string;
  /** The QR code as an SVG image, made by us. */
  readonly qr: string;
  /** The same, to type; in groups of four. */
  readonly secret: string;
  readonly errors: readonly FieldError[];
}

/** Shows what goes into an authenticator app, and asks for its first code. */
export const enrolPage: Page<EnrolPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not set up yet' : 'Set up an authenticator app'),
  width: 'form',
  template: `<div>
<h1>Set up an authenticator app</h1>
<p class="lead">Read this image with the app on your phone, then type the code that it shows.</p>
</div>
<%~ include('@summary', it) %>
<figure class="qr" role="img" aria-label="QR code for an authenticator app"><%~ it.qr %></figure>
<div class="field">
<p class="label">Or type this key into the app</p>
<p><code><%= it.secret %></code></p>
</div>
<form method="post" action="/account/second-factor/confirm" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'code', label: 'Code from the app', value: '', autocomplete: 'one-time-code',
  error: it.errors[0]?.message, focus: it.errors.length === 0, attributes: 'inputmode="numeric" spellcheck="false"',
  help: 'Six digits, new every half minute.' }) %>
<div class="actions"><button class="primary">Turn it on</button> <a class="button" href="/account">Cancel</a></div>
</form>
<p class="help">Turning it on signs out every other browser.</p>`,
};
