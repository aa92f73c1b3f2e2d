import type { ServerLimits } from '#organizations/server-limits';
import type { FieldError, Page } from '#pages/page';

/** What is typed in the form of a server; every field is there, empty where nothing was typed. */
export interface TypedServer {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly instructions: string;
  readonly hiddenTools: string;
  readonly limits: { readonly [name in keyof ServerLimits]?: string };
  /** Of the server that the form was filled from. */
  readonly revision: string;
  readonly kind: string;
  readonly url: string;
  readonly agent: string;
}

/** What is in the form, and what is wrong with it. */
export interface ServerFormData {
  /** Whether it makes a server, or changes one. */
  readonly isNew: boolean;
  readonly heading: string;
  readonly tabs: object | undefined;
  readonly notice: string | undefined;
  readonly action: string;
  readonly cancel: string;
  readonly typed: TypedServer;
  /** The names of the agents in force. */
  readonly agents: readonly string[];
  /** Where one is made. */
  readonly newAgent: string;
  readonly errors: readonly FieldError[];
  readonly isDisabled: boolean;
  /** What can be done to the server besides, each a question. */
  readonly dangers: readonly {
    readonly text: string;
    readonly help: string;
    readonly href: string;
    readonly isHarmless: boolean;
  }[];
}

/** Makes a server or changes it: what it is called, and where its calls go. */
export const serverFormPage: Page<ServerFormData> = {
  title: ({ errors, isNew, heading }) =>
    errors.length > 0 ? 'Not saved yet' : isNew ? heading : `Settings of ${heading}`,
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: it.heading, lead: it.isNew ? 'A server is one MCP endpoint: assistants call it, and it passes their calls on.' : '', badges: [], action: undefined }) %>
<% if (it.tabs) { %><%~ include('@subnav', it.tabs) %><% } %>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<% if (!it.isNew) { %><input type="hidden" name="revision" value="<%= it.typed.revision %>"><% } %>
<% if (it.isNew) { %><%~ include('@field', { name: 'name', label: 'Name', value: it.typed.name, error: wrong('name'), focus: it.errors.length === 0,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="63"',
  help: 'Stands in the address of the endpoint and stays: lower-case letters, digits and hyphens, as sales.' }) %><% } %>
<%~ include('@choices', { name: 'kind', legend: 'Where calls go', help: '', error: wrong('kind'), options: [
  { value: 'http', text: 'An HTTP server', help: 'An MCP server that speaks Streamable HTTP, at a public URL.', risk: '', isChosen: it.typed.kind === 'http' },
  { value: 'agent', text: 'An on-premise agent', help: 'A program inside your private network that dials out to this server.', risk: '', isChosen: it.typed.kind === 'agent' },
  { value: 'demo', text: 'The demo library', help: 'Sample data to try things with; no other system is involved.', risk: '', isChosen: it.typed.kind === 'demo' },
  ...(it.typed.kind === 'stdio' && !it.isNew ? [{ value: 'stdio', text: 'A command of the server', help: 'Whoever runs this server configured it, and only they can.', risk: '', isChosen: true }] : []),
] }) %>
<div class="for-http"><%~ include('@field', { name: 'url', label: 'URL of the HTTP server', type: 'url', value: it.typed.url, error: wrong('url'), optional: true, unmarked: true, focus: false,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off"', help: it.isNew ? 'As https://mcp.example.com/mcp.' : 'Another one forgets its authorization and the accounts that people connected, and another origin its fixed headers.' }) %></div>
<div class="for-agent"><%~ include('@select', { name: 'agent', label: 'Agent', error: wrong('agent'),
  options: [{ value: '', text: it.agents.length > 0 ? 'Choose an agent' : 'No agents yet', isChosen: !it.typed.agent }, ...it.agents.map((name) => ({ value: name, text: name, isChosen: name === it.typed.agent }))],
  help: it.agents.length > 0 ? 'It serves this server from inside your network, where its configuration has one of the same name.' : 'Create one first, then come back.' }) %>
<% if (it.agents.length === 0) { %><p><a href="<%= it.newAgent %>">Create an agent</a></p><% } %></div>
<%~ include('@field', { name: 'title', label: 'Title', type: 'text', value: it.typed.title, error: wrong('title'), optional: true, unmarked: false, focus: false,
  attributes: 'maxlength="200"', help: 'What people and assistants see, in any script.' }) %>
<% if (!it.isNew) { %>
<%~ include('@area', { name: 'description', optional: true, label: 'Description', value: it.typed.description, error: wrong('description'), attributes: 'maxlength="2000"', help: 'What the server is for.' }) %>
<%~ include('@area', { name: 'instructions', optional: true, label: 'Instructions for assistants', rows: 5, value: it.typed.instructions, error: wrong('instructions'), attributes: 'maxlength="20000"', help: 'Said to every assistant that connects, as when to use which tool.' }) %>
<%~ include('@area', { name: 'hiddenTools', optional: true, label: 'Hidden tools', value: it.typed.hiddenTools, error: wrong('hiddenTools'), attributes: 'class="code-like" spellcheck="false"', help: 'One name a line. Nobody can see or call them, from the next call on.' }) %>
<fieldset class="section">
<legend>Limits</legend>
<p class="help">Empty: only what holds for every server. Who goes beyond one is told which, and when to come back.</p>
<% const limit = (name, label, help) => include('@field', { name, label, help, value: it.typed.limits[name] || '', error: wrong(name), optional: true, unmarked: true, focus: false,
  attributes: 'inputmode="numeric" autocomplete="off" spellcheck="false" maxlength="12"' }) %>
<%~ limit('callsPerMinute', 'Calls a minute', 'Of one caller: a key, or what an application does for one person. Twice as many notifications.') %>
<%~ limit('concurrentCalls', 'Calls at once', 'Of one caller. It may listen by four times as many streams.') %>
<%~ limit('requestBytes', 'Bytes of a request', '') %>
<%~ limit('answerBytes', 'Bytes of an answer', '') %>
<%~ limit('callSeconds', 'Seconds a call', 'From its arrival to the end of its answer.') %>
</fieldset>
<% } %>
<%~ include('@form-actions', { text: it.isNew ? 'Create server' : 'Save', cancel: it.cancel }) %>
</form>
<% if (it.dangers.length > 0) { %>
<section class="section" aria-labelledby="dangers-heading">
<h2 id="dangers-heading"><%= it.isDisabled ? 'Out of use' : 'Take it out of use' %></h2>
<ul class="rows">
<% for (const { text, help, href, isHarmless } of it.dangers) { %><li><div><%= help %></div><a class="button<%= isHarmless ? '' : ' danger' %>" href="<%= href %>" data-question><%= text %></a></li><% } %>
</ul>
</section>
<% } %>`,
};
