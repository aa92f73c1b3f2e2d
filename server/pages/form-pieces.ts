/**
 * Pieces of forms, beside `@field` of `partials.ts`.
 *
 * `@checks` and `@choices`: `name`, `legend`, `options` (each `{value, text, help, risk, isChosen}`), and
 * optionally `help`, `error`; several may be chosen, each its own field `name.value`, or one. `@area`: `name`, `label`, `value`, and optionally
 * `help`, `error`, `rows`, `optional`. `@select`: `name`, `label`, `options` (each `{value, text, isChosen}`), `help`,
 * `error`. `@form-actions`: `text`, the verb of the one primary button, and `cancel`, where to go otherwise.
 */
export const formPieces: Readonly<Record<string, string>> = {
  '@checks': `<%~ include('@options', { ...it, type: 'checkbox' }) %>`,
  '@choices': `<%~ include('@options', { ...it, type: 'radio' }) %>`,

  '@options': `<% const described = [it.help && it.name + '-help', it.error && it.name + '-error'].filter(Boolean).join(' ') %>
<fieldset class="options<%= it.error ? ' wrong' : '' %>" id="<%= it.name %>" tabindex="-1" <% if (described) { %>aria-describedby="<%= described %>"<% } %>>
<legend><%= it.legend %></legend>
<% if (it.error) { %><p class="error" id="<%= it.name %>-error"><%= it.error %></p><% } %>
<% for (const option of it.options) { const id = it.name + '-' + option.value.replaceAll(/[^a-z0-9]/gi, '-') %>
<div class="option">
<input type="<%= it.type %>" name="<%= it.type === 'radio' ? it.name : it.name + '.' + option.value %>" id="<%= id %>" value="<%= option.value %>" <% if (option.help || option.risk) { %>aria-describedby="<%= id %>-help" <% } %><% if (option.isChosen) { %>checked<% } %>>
<div><label for="<%= id %>"><%= option.text %></label><% if (option.risk) { %> <span class="badge care">take care</span><% } %>
<% if (option.help || option.risk) { %><p class="help" id="<%= id %>-help"><%= option.help %><% if (option.risk) { %><br><%= option.risk %><% } %></p><% } %></div>
</div>
<% } %>
<% if (it.help) { %><p class="help" id="<%= it.name %>-help"><%= it.help %></p><% } %>
</fieldset>`,

  '@area': `<% const described = [it.help && it.name + '-help', it.error && it.name + '-error'].filter(Boolean).join(' ') %>
<div class="field<%= it.error ? ' wrong' : '' %>">
<label for="<%= it.name %>"><%= it.label %><% if (it.optional) { %> <span class="optional">(optional)</span><% } %></label>
<textarea id="<%= it.name %>" name="<%= it.name %>" rows="<%= it.rows || 3 %>" <% if (described) { %>aria-describedby="<%= described %>" <% } %><% if (it.error) { %>aria-invalid="true" <% } %><%~ it.attributes || '' %> dir="auto">
<%= (it.value || '').replaceAll('\\r\\n', '\\n') %></textarea>
<% if (it.error) { %><p class="error" id="<%= it.name %>-error"><%= it.error %></p><% } %>
<% if (it.help) { %><p class="help" id="<%= it.name %>-help"><%= it.help %></p><% } %>
</div>`,

  '@select': `<% const described = [it.help && it.name + '-help', it.error && it.name + '-error'].filter(Boolean).join(' ') %>
<div class="field<%= it.error ? ' wrong' : '' %>">
<label for="<%= it.name %>"><%= it.label %></label>
<select id="<%= it.name %>" name="<%= it.name %>" <% if (described) { %>aria-describedby="<%= described %>" <% } %><% if (it.error) { %>aria-invalid="true"<% } %>>
<% for (const { value, text, isChosen } of it.options) { %><option value="<%= value %>" <% if (isChosen) { %>selected<% } %>><%= text %></option><% } %>
</select>
<% if (it.error) { %><p class="error" id="<%= it.name %>-error"><%= it.error %></p><% } %>
<% if (it.help) { %><p class="help" id="<%= it.name %>-help"><%= it.help %></p><% } %>
</div>`,

  '@form-actions': `<div class="actions"><button class="primary"><%= it.text %></button><a class="button" href="<%= it.cancel %>">Cancel</a></div>`,
};
