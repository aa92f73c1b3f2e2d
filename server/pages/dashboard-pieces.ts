/**
 * Pieces of the dashboard's pages, beside those of `partials.ts`.
 *
 * `@heading`: `heading`, and optionally `lead`, `badges` (each `{text, tone}`), `action` (`{text, href}`), the
 * one primary action of the page. `@switcher`, `@side`, `@crumbs`: the navigation of `dashboard-frame.ts`.
 * `@subnav`: `label`, `entries` (each `{text, href, isHere}`), the parts of one thing. `@facts`: `facts`, each `{label, text}` or
 * `{label, cell}` with a cell of a table, and `now`.
 */
export const dashboardPieces: Readonly<Record<string, string>> = {
  '@heading': `<div class="heading">
<div><h1 dir="auto"><%= it.heading %></h1><% for (const badge of it.badges || []) { %> <%~ include('@badge', badge) %><% } %>
<% if (it.lead) { %><p class="lead"><%= it.lead %></p><% } %></div>
<% if (it.action) { %><a class="button primary" href="<%= it.action.href %>"><%= it.action.text %></a><% } %>
</div>`,

  '@facts': `<dl class="facts beside">
<% for (const { label, text, cell } of it.facts) { %><div><dt><%= label %></dt><dd><% if (cell) { %><%~ include('@cell', { cell, now: it.now }) %><% } else { %><span dir="auto"><%= text %></span><% } %></dd></div><% } %>
</dl>`,

  '@badge': `<span class="badge <%= it.tone %>"><%= it.text %></span>`,

  '@switcher': `<details class="switcher">
<summary><span class="soft">Organization</span> <strong><%= it.organization %></strong></summary>
<ul>
<% for (const { text, href } of it.others) { %><li><a href="<%= href %>"><%= text %></a></li><% } %>
<li><a href="/organizations">All organizations</a></li>
</ul>
</details>`,

  '@side': `<nav class="side" aria-label="<%= it.organization %>">
<ul>
<% for (const { text, href, isHere } of it.entries) { %>
<li><a href="<%= href %>" <% if (isHere) { %>aria-current="true"<% } %>><%= text %></a></li>
<% } %>
</ul>
</nav>`,

  '@subnav': `<nav aria-label="<%= it.label %>"><ul class="subnav">
<% for (const { text, href, isHere } of it.entries) { %><li><a href="<%= href %>" <% if (isHere) { %>aria-current="page"<% } %>><%= text %></a></li><% } %>
</ul></nav>`,

  '@crumbs': `<% if (it.crumbs.length > 1) { %><nav class="crumbs" aria-label="Breadcrumb">
<ol>
<% it.crumbs.forEach(({ text, href }, place) => { %>
<li><% if (href && place < it.crumbs.length - 1) { %><a href="<%= href %>" dir="auto"><%= text %></a><% } else { %><span aria-current="page" dir="auto"><%= text %></span><% } %></li>
<% }) %>
</ol>
</nav><% } %>`,
};
