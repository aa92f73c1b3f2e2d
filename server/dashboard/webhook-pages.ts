import type { FieldError, Page } from '#pages/page';
import type { Badge, Cell, Table } from '#pages/table';

/** What was typed of where events go, and which. */
export interface TypedWebhook {
  readonly url: string;
  readonly actions: string;
}

export interface WebhooksPageData {
  readonly table: Table;
  readonly notice: string | undefined;
  readonly action: string;
  readonly typed: TypedWebhook;
  readonly known: readonly string[];
  readonly errors: readonly FieldError[];
}

/** The fields of a webhook; `it.typed`, `it.known` and `wrong` are there. */
const fields = `<%~ include('@field', { name: 'url', label: 'URL', type: 'url', value: it.typed.url, error: wrong('url'), autocomplete: 'off', attributes: 'maxlength="2000" spellcheck="false"', help: 'https, on the public internet. One inside your network is for the operator to allow.', focus: false }) %>
<%~ include('@area', { name: 'actions', label: 'Events', value: it.typed.actions, error: wrong('actions'), rows: 3, optional: true, attributes: 'spellcheck="false"', help: 'Every event, unless you name some, each on a line: key.create for one kind, key. for all that begin so.' }) %>
<% if (it.known.length > 0) { %><details><summary>Kinds of events that have happened here</summary><p class="help"><code><%= it.known.join(' ') %></code></p></details><% } %>`;

/** Where the events of an organization are sent, and sending them somewhere else as well. */
export const webhooksPage: Page<WebhooksPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not made yet' : 'Webhooks'),
  width: 'table',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: 'Webhooks', badges: [], action: undefined,
  lead: 'What is written down in the audit log is sent as it happens: to a SIEM, a chat, a script. Each message is signed, and sent again until it is taken.' }) %>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<%~ include('@table', it.table) %>
<section class="section narrow" aria-labelledby="new-heading">
<h2 id="new-heading">New webhook</h2>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
${fields}
<div class="actions"><button class="primary">Create webhook</button></div>
</form>
</section>`,
};

export interface WebhookPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly notice: string | undefined;
  /** Why nothing is sent, or that the last test failed. */
  readonly warning: string | undefined;
  readonly facts: readonly {
    readonly label: string;
    readonly text?: string;
    readonly cell?: Cell;
  }[];
  readonly home: string;
  readonly status: 'delivering' | 'retrying' | 'disabled';
  readonly typed: TypedWebhook;
  readonly known: readonly string[];
  readonly errors: readonly FieldError[];
  readonly now: number;
}

/** One webhook: how deliveries go, a test, its settings and its secret. */
export const webhookPage: Page<WebhookPageData> = {
  title: ({ heading, errors }) => (errors.length > 0 ? 'Not saved' : heading),
  width: 'text',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: it.heading, lead: '', badges: it.badges, action: undefined }) %>
<% if (it.warning) { %><p class="notice warning" role="status"><%= it.warning %></p><% } %>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<%~ include('@facts', { facts: it.facts, now: it.now }) %>
<section class="section" aria-labelledby="deliveries-heading">
<h2 id="deliveries-heading">Deliveries</h2>
<ul class="rows">
<li><div>Send an event of the kind <code>webhook.test</code> now, and see what comes back.</div>
<form method="post" action="<%= it.home %>/test"><%~ include('@guard', it.frame) %><button>Send a test</button></form></li>
<% if (it.status === 'retrying') { %>
<li><div>Try again now. The next event waits until this one is taken.</div>
<form method="post" action="<%= it.home %>/enable"><%~ include('@guard', it.frame) %><input type="hidden" name="from" value="where_it_stood"><button>Try again now</button></form></li>
<% } %>
<% if (it.status === 'disabled') { %>
<li><div>Go on where it stood: all that happened meanwhile is sent.</div>
<form method="post" action="<%= it.home %>/enable"><%~ include('@guard', it.frame) %><input type="hidden" name="from" value="where_it_stood"><button>Enable, and catch up</button></form></li>
<li><div>Begin with what happens from now on; what happened meanwhile is left out.</div>
<form method="post" action="<%= it.home %>/enable"><%~ include('@guard', it.frame) %><input type="hidden" name="from" value="now"><button>Enable from now on</button></form></li>
<% } else { %>
<li><div>Send it nothing until it is enabled again.</div><a class="button danger" href="<%= it.home %>/disable" data-question>Disable</a></li>
<% } %>
</ul>
</section>
<section class="section" aria-labelledby="what-heading">
<h2 id="what-heading">What is sent, and where to</h2>
<form method="post" action="<%= it.home %>" novalidate>
<%~ include('@guard', it.frame) %>
${fields}
<div class="actions"><button class="primary">Save</button></div>
</form>
</section>
<section class="section" aria-labelledby="secret-heading">
<h2 id="secret-heading">Secret</h2>
<ul class="rows">
<li><div>Make a new one, shown once. For a day the present one signs as well, so that the receiver misses nothing.</div>
<form method="post" action="<%= it.home %>/rotate"><%~ include('@guard', it.frame) %><button>Rotate the secret</button></form></li>
</ul>
</section>
<section class="section" aria-labelledby="remove-heading">
<h2 id="remove-heading">Take it out of use</h2>
<ul class="rows"><li><div>Remove it for good.</div><a class="button danger" href="<%= it.home %>/remove" data-question>Remove the webhook</a></li></ul>
</section>`,
};
