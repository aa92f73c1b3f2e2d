import type { Page } from './page.ts';

/** A question before something is destroyed, or taken up again. */
export interface QuestionPageData {
  /** As `Revoke the API key “Nightly report”?`. */
  readonly heading: string;
  /** What stops working, counted, each in a sentence. */
  readonly consequences: readonly string[];
  /** Where the answer goes, by POST. */
  readonly action: string;
  /** What it does, as on the button: `Revoke the key`. */
  readonly verb: string;
  /** Whether nothing stops working by it, so that its button is no warning. */
  readonly isHarmless?: boolean;
  /** Where to go instead. */
  readonly cancel: string;
  /** What must be typed to go on, where a slip would cost much. */
  readonly typed?:
    | {
        readonly label: string;
        readonly expected: string;
        /** What was typed instead. */
        readonly value?: string;
        readonly error: string | undefined;
      }
    | undefined;
}

/** Asks before something is destroyed: a page of its own, shown as a dialog where scripts run. */
export const questionPage: Page<QuestionPageData> = {
  title: ({ heading }) => heading,
  width: 'form',
  template: `<div id="question" class="group">
<h1 id="question-heading"><%= it.heading %></h1>
<ul class="consequences">
<% for (const text of it.consequences) { %><li><%= text %></li><% } %>
</ul>
<form method="post" action="<%= it.action %>">
<%~ include('@guard', it.frame) %>

<% if (it.typed) { %><%~ include('@field', { name: 'typed', label: it.typed.label, value: it.typed.value || '', error: it.typed.error, attributes: 'autocomplete="off" spellcheck="false"' }) %><% } %>
<div class="actions"><button class="<%= it.isHarmless ? 'primary' : 'danger strong' %>"><%= it.verb %></button><a class="button" href="<%= it.cancel %>" data-cancel>Cancel</a></div>
</form>
</div>`,
};
