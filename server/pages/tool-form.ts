/** An argument of a tool, with what was typed for it. */
export interface ToolFormField {
  /** A plain word, as the argument's name may be anything. */
  readonly id: string;
  /** Told apart from the form's other fields by its beginning. */
  readonly field: string;
  readonly label: string;
  readonly kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json';
  readonly options: readonly string[];
  readonly help: string;
  readonly required: boolean;
  readonly value: string;
  readonly error: string;
}

/** `@tool-field`, of a `ToolFormField`. Names and texts are the upstream's: nothing of them is written unescaped. */
export const toolFormPieces: Readonly<Record<string, string>> = {
  '@tool-field': `<div class="field<%= it.error ? ' wrong' : '' %>">
<label for="<%= it.id %>"><span dir="auto"><%= it.label %></span><% if (!it.required) { %> <span class="optional">(optional)</span><% } %></label>
<% if (it.kind === 'boolean' || it.kind === 'choice') { %>
<select <%~ include('@tool-attributes', it) %>><option value=""></option><% for (const choice of it.kind === 'boolean' ? ['true', 'false'] : it.options) { %><option value="<%= choice %>" <% if (choice === it.value) { %>selected<% } %>><%= choice %></option><% } %></select>
<% } else if (it.kind === 'json') { %>
<textarea <%~ include('@tool-attributes', it) %> class="code-like" rows="4" spellcheck="false">
<%= it.value %></textarea>
<% } else if (it.kind === 'text') { %>
<textarea <%~ include('@tool-attributes', it) %> rows="2" dir="auto" spellcheck="false">
<%= it.value %></textarea>
<% } else { %>
<input <%~ include('@tool-attributes', it) %> type="text" inputmode="<%= it.kind === 'integer' ? 'numeric' : 'decimal' %>" value="<%= it.value %>" autocomplete="off">
<% } %>
<% if (it.error) { %><p class="error" id="<%= it.id %>-error"><%= it.error %></p><% } %>
<% if (it.help) { %><p class="help" id="<%= it.id %>-help" dir="auto"><%= it.help %></p><% } %>
</div>`,

  '@tool-attributes': `<% const described = [it.help && it.id + '-help', it.error && it.id + '-error'].filter(Boolean).join(' ') %>id="<%= it.id %>" name="<%= it.field %>" <% if (described) { %>aria-describedby="<%= described %>" <% } %><% if (it.error) { %>aria-invalid="true" <% } %><% if (it.required) { %>required<% } %>`,
};
