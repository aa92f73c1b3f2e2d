import type { FieldError, Page } from './page.ts';
import type { ToolFormField } from './tool-form.ts';

/** The tools of a server, the one that is tried, and what came of it. */
export interface TryPageData {
  readonly server: string;
  readonly heading: string;
  readonly tabs: {
    readonly label: string;
    readonly entries: readonly { text: string; href: string; isHere: boolean }[];
  };
  /** Why no tools can be shown. */
  readonly problem:
    | {
        readonly message: string;
        readonly code?: number;
        /** Where to look next, for who looks after the server. */
        readonly nextLook:
          | {
              readonly text: string;
              readonly link: { readonly text: string; readonly href: string };
            }
          | undefined;
      }
    | undefined;
  /** Where it stands which groups the server is kept to; `undefined` for whoever may use it. */
  readonly keptTo: string | undefined;
  readonly tools: readonly {
    readonly name: string;
    readonly text: string;
    readonly href: string;
    readonly isHere: boolean;
  }[];
  /** The tool that is being tried. */
  readonly tool:
    | {
        readonly name: string;
        readonly description: string;
        readonly fields: readonly ToolFormField[];
      }
    | undefined;
  readonly action: string;
  readonly errors: readonly FieldError[];
  readonly result:
    | {
        readonly isError: boolean;
        readonly summary: string;
        /** Of a JSON-RPC error. */
        readonly code: number | undefined;
        readonly parts: readonly { title: string; text: string; isCut: boolean }[];
      }
    | undefined;
}

/** For whoever looks after the MCP server, below what everybody understands. */
const errorCode = (of: string) =>
  `<% if (${of}.code !== undefined) { %><p class="help fine">Error code <code><%= ${of}.code %></code></p><% } %>`;

/** Tries the tools of a server as oneself. */
export const tryPage: Page<TryPageData> = {
  title: ({ heading }) => `Try ${heading}`,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, badges: [], action: undefined,
  lead: 'Calls go through the gateway as yours: with your scopes, counted, and kept in the audit log.' }) %>
<%~ include('@subnav', it.tabs) %>
<% if (it.keptTo) { %><div class="empty"><p>This server is kept to groups, and you are in none of them. Owners and admins choose the groups under Access.</p>
<p><a class="button" href="<%= it.keptTo %>">To its access</a></p></div>
<% } else if (it.problem) { %><div class="notice warning" role="status"><p dir="auto"><%= it.problem.message %></p>${errorCode('it.problem')}</div>
<% if (it.problem.nextLook) { %><p class="lead"><%= it.problem.nextLook.text %></p>
<p><a class="button" href="<%= it.problem.nextLook.link.href %>"><%= it.problem.nextLook.link.text %></a></p><% } %>
<% } else if (it.tools.length === 0) { %><div class="empty"><p>This server has no tools that you may call.</p></div>
<% } else { %>
<div class="trying">
<nav aria-label="Tools"><ul class="tools">
<% for (const { text, name, href, isHere } of it.tools) { %><li><a href="<%= href %>" <% if (isHere) { %>aria-current="page"<% } %> dir="auto"><%= text %></a></li><% } %>
</ul></nav>
<div class="group">
<% if (!it.tool) { %><p class="lead">Choose a tool to call it.</p>
<% } else { %>
<h2 dir="auto"><code><%= it.tool.name %></code></h2>
<% if (it.tool.description) { %><p class="described" dir="auto"><%= it.tool.description %></p><% } %>
<% if (it.result) { %>
<section class="result group" aria-labelledby="result-heading">
<h3 id="result-heading" class="notice<%= it.result.isError ? ' failed' : '' %>" tabindex="-1" autofocus><%= it.result.summary %></h3>
${errorCode('it.result')}
<% for (const { title, text, isCut } of it.result.parts) { %>
<div><p class="label"><%= title %></p><pre tabindex="0" dir="auto"><%= text %></pre><% if (isCut) { %><p class="help">Only the beginning is shown.</p><% } %></div>
<% } %>
</section>
<% } %>
<form method="post" action="<%= it.action %>">
<%~ include('@summary', { errors: it.errors }) %>
<%~ include('@guard', it.frame) %>
<input type="hidden" name="tool" value="<%= it.tool.name %>">
<% for (const field of it.tool.fields) { %><%~ include('@tool-field', field) %><% } %>
<% if (it.tool.fields.length === 0) { %><p class="help">This tool takes no arguments.</p><% } %>
<div class="actions"><button class="primary">Call <%= it.tool.name.length > 40 ? 'the tool' : it.tool.name %></button></div>
<p class="help">The call is real: a tool that changes something changes it.</p>
</form>
<% } %>
</div>
</div>
<% } %>`,
};
