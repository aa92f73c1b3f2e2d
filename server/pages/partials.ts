import { timePiece } from './time-piece.ts';

/**
 * Pieces of pages, for `<%~ include('@field', {…}) %>`.
 *
 * What includes a piece lends it its own data as well, so say `error: ''` where none is meant.
 *
 * `@field`: `name`, `label`, and optionally `type`, `value`, `help`, `error`, `autocomplete`, `focus`,
 * `optional`, `unmarked` (optional, but not said so), `attributes` (more of them, written by us). `@summary`: `errors`, each `{field, message}`; takes the
 * focus. `@guard`: the frame. `@time`: `at`, `now`. `@notice`: `text`.
 * `@new-password`: `error`, `focus`; makes the fields `password` and `repeated`.
 */
export const partials: Readonly<Record<string, string>> = {
  '@guard': `<% if (it.csrfToken !== undefined) { %><input type="hidden" name="csrf_token" value="<%= it.csrfToken %>"><% } %>`,

  '@summary': `<% if (it.errors && it.errors.length > 0) { %>
<div class="summary" role="alert" tabindex="-1" autofocus>
<p><strong>Not done yet.</strong></p>
<ul>
<% for (const { field, message } of it.errors) { %>
<li><% if (field) { %><a href="#<%= field %>"><%= message %></a><% } else { %><%= message %><% } %></li>
<% } %>
</ul>
</div>
<% } %>`,

  '@notice': `<% if (it.text) { %><p class="notice" role="status"><%= it.text %></p><% } %>`,

  '@field': `<% const described = [it.help && it.name + '-help', it.error && it.name + '-error'].filter(Boolean).join(' ') %>
<div class="field<%= it.error ? ' wrong' : '' %>">
<label for="<%= it.name %>"><%= it.label %><% if (it.optional && !it.unmarked) { %> <span class="optional">(optional)</span><% } %></label>
<input id="<%= it.name %>" name="<%= it.name %>" type="<%= it.type || 'text' %>" value="<%= it.value %>"
 <% if (it.autocomplete) { %>autocomplete="<%= it.autocomplete %>" <% } %>
 <% if (described) { %>aria-describedby="<%= described %>" <% } %>
 <% if (it.error) { %>aria-invalid="true" <% } %>
 <% if (it.focus) { %>autofocus <% } %><%~ it.attributes || '' %> <% if (!it.optional) { %>required <% } %>dir="auto">
<% if (it.error) { %><p class="error" id="<%= it.name %>-error"><%= it.error %></p><% } %>
<% if (it.help) { %><p class="help" id="<%= it.name %>-help"><%= it.help %></p><% } %>
</div>`,

  '@new-password': `<%~ include('@field', { name: 'password', label: 'New password', type: 'password',
  autocomplete: 'new-password', error: it.error, focus: it.focus,
  help: 'At least 12 characters; a sentence is easy to keep in mind.' }) %>
<%~ include('@field', { name: 'repeated', label: 'New password, again', type: 'password',
  autocomplete: 'new-password', error: '', help: '', focus: false }) %>`,

  '@time': timePiece('it.at', 'it.now'),
};
