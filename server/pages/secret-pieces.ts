import type { ProxyReference } from '#download/proxy-reference';
import type { AgentStep } from './agent-steps.ts';
import type { AssistantConfiguration } from './assistant-configurations.ts';

/** What is shown once: in the answer that makes it, and never again. */
export interface ShownSecret {
  /** What it is, as `API key`. */
  readonly label: string;
  readonly secret: string;
  /** What belongs to it and is no secret, as the client id. */
  readonly beside: readonly { readonly label: string; readonly text: string }[];
  readonly configurations: readonly AssistantConfiguration[];
  /** Where the proxy comes from that configurations and steps run. */
  readonly proxy?: ProxyReference;
  /** What to do with that of an agent. */
  readonly steps?: readonly AgentStep[];
  /** What this server keeps of it; a fingerprint unless said. */
  readonly kept?: string;
  /** What to do without it; make a new one unless said. */
  readonly again?: string;
  /** Where it is stored, in a sentence; that of an application's unless given. */
  readonly keep?: string;
  /** Where to go once it is stored; a reload of the page leads there as well. */
  readonly done: string;
}

/**
 * `@secret`: `secret`, a `ShownSecret`. The tabs are radio buttons, so that they work by keyboard and
 * without scripts. `@tabs`: `configurations`. `@proxy`: `proxy`, where it comes from. `@code`: `text`, and what it is: to copy (`of`), to look at (`label`).
 */
export const secretPieces: Readonly<Record<string, string>> = {
  '@secret': `<section class="secret" aria-labelledby="secret-heading" data-secret="<%= it.secret.done %>">
<h2 id="secret-heading"><%= it.secret.label %>, shown this once</h2>
<p>Nobody can show it again, not even this server: <%= it.secret.kept || 'it keeps only a fingerprint' %>. Without it, <%= it.secret.again || 'make a new one' %>.</p>
<dl class="facts">
<% for (const { label, text } of it.secret.beside) { %>
<div><dt><%= label %></dt><dd class="copied"><code><%= text %></code><button type="button" data-copy="<%= text %>" aria-label="Copy the <%= label %>" hidden>Copy</button></dd></div>
<% } %>
<div><dt><%= it.secret.label %></dt><dd class="copied"><code class="value"><%= it.secret.secret %></code><button type="button" data-copy="<%= it.secret.secret %>" aria-label="Copy the <%= it.secret.label %>" hidden>Copy</button></dd></div>
</dl>
<% if (it.secret.configurations.length > 0) { %><%~ include('@tabs', { configurations: it.secret.configurations }) %><% } %>
<% if (it.secret.steps) { %><%~ include('@agent-steps', { steps: it.secret.steps }) %><% } %>
<% if (it.secret.proxy) { %><%~ include('@proxy', { proxy: it.secret.proxy }) %><% } %>
<form class="stored" method="get" action="<%= it.secret.done.split('?')[0] %>">
<% for (const [name, value] of new URLSearchParams(it.secret.done.split('?')[1] || '')) { %><input type="hidden" name="<%= name %>" value="<%= value %>"><% } %>
<div class="option"><input type="checkbox" id="stored" required><div><label for="stored">I have stored it</label>
<p class="help"><%= it.secret.keep || 'In a password manager or straight in the configuration.' %> There is no way back to this page.</p></div></div>
<div class="actions"><button class="primary">Done</button></div>
</form>
</section>`,

  '@tabs': `<fieldset class="tabs">
<legend>Ready to paste</legend>
<% it.configurations.forEach(({ id, assistant }, place) => { %>
<input type="radio" name="assistant" id="tab-<%= id %>" <% if (place === 0) { %>checked<% } %>><label for="tab-<%= id %>"><%= assistant %></label>
<% }) %>
<% for (const { id, assistant, where, text } of it.configurations) { %>
<div class="panel panel-<%= id %>"><p class="help"><%= where %></p>
<%~ include('@code', { text, of: 'the configuration for ' + assistant, label: 'Configuration for ' + assistant }) %></div>
<% } %>
</fieldset>`,

  '@proxy': `<p class="help">The proxy comes from this server: <a href="/download/"><%= it.proxy.fileName %></a><% if (it.proxy.sha256) { %>, SHA-256 <code><%= it.proxy.sha256 %></code>.<% } else { %>. There is no copy of it at the moment; this server’s administrator finds the reason in the log.<% } %></p>`,

  '@code': `<div class="code"><button type="button" data-copy="<%= it.text %>" aria-label="Copy <%= it.of %>" hidden>Copy</button><pre tabindex="0" role="region" aria-label="<%= it.label %>"><code><%= it.text %></code></pre></div>`,
};
