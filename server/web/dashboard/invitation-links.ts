import { csvCell } from '#audit/export-audit';
import { html, type Html } from '#web/html';
import { layout, pageHeading, type Frame } from '#web/layout';
import { copyButton } from '#web/tables';
import { counted } from './questions.ts';

/** A person who was invited, and their link, which is shown only once. */
interface InvitedPerson {
  readonly recipient: string;
  readonly role: string;
  readonly link: string;
}

interface LinksPageData {
  readonly heading: string;
  readonly links: readonly InvitedPerson[];
  /** The people of the list who were not invited, and why. */
  readonly skipped: readonly { readonly email: string; readonly why: SkipReason }[];
  /** Where to go once the links are stored; reloading the page leads there too. */
  readonly done: string;
}

type SkipReason = keyof typeof skipWords;

/** Why people are not invited, after their address. */
const skipWords = {
  member: 'is a member already',
  invited: 'is invited already',
  repeated: 'is in the list more than once',
} as const;

/** Shows the links of several invitations once: to copy one, to copy all, and as a file. */
export function linksPage(data: LinksPageData, frame: Frame): Html {
  const { heading, links, skipped, done } = data;
  const lead =
    'Send each person their link in a private message. It works once and expires after seven days.';
  const lines = links.map(({ recipient, link }) => `${recipient}\t${link}`).join('\n');
  const content = html`${pageHeading({ heading, lead })}
${skipped.length > 0 && skippedList(skipped)}
<section class="secret" aria-labelledby="secret-heading" data-secret="${done}">
<h2 id="secret-heading">${counted(links.length, 'link')}, shown only once</h2>
<p>You won’t see these links again: this server stores only fingerprints of them. If you lose one, renew the invitation.</p>
<div class="actions">${copyButton(lines, 'all links')}<a class="button" download="invitations.csv" href="${csvUrl(links)}">Download as CSV</a></div>
<div class="scroll" tabindex="0" role="region" aria-label="Links">
<table>
<caption class="unseen">Links</caption>
<thead><tr><th scope="col">For</th><th scope="col">Role</th><th scope="col">Link</th></tr></thead>
<tbody>
${links.map(
  ({ recipient, role, link }) => html`<tr>
<th scope="row"><span dir="auto">${recipient}</span></th>
<td data-label="Role" class="cell-text"><span class="word">${role}</span></td>
<td data-label="Link" class="cell-address"><span class="id"><code>${link}</code>${copyButton(link, `the link for ${recipient}`)}</span></td>
</tr>`,
)}
</tbody>
</table>
</div>
<form class="stored" method="get" action="${done}">
<div class="option">
<input type="checkbox" id="stored" required>
<div>
<label for="stored">I have sent or stored them</label>
<p class="help">Send each person their own link. There is no way back to this page.</p>
</div>
</div>
<div class="actions"><button class="primary">Done</button></div>
</form>
</section>`;
  return layout({ title: `${heading}: links, shown only once`, width: 'table' }, frame, content);
}

/** The people of the list who are not invited, and why. */
export function skippedList(
  skipped: readonly { readonly email: string; readonly why: SkipReason }[],
): Html {
  return html`<details>
<summary>${counted(skipped.length, 'person is skipped', 'people are skipped')}</summary>
<ul>
${skipped.map(({ email, why }) => html`<li><span dir="auto">${email}</span> ${skipWords[why]}</li>`)}
</ul>
</details>`;
}

/** The links as a file in the page itself, since no later request can produce them. */
function csvUrl(links: readonly InvitedPerson[]): string {
  const rows = links.map(({ recipient, role, link }) =>
    [recipient, role, link].map(csvCell).join(','),
  );
  const file = ['email,role,link', ...rows].map((line) => `${line}\r\n`).join('');
  return `data:text/csv;charset=utf-8;base64,${Buffer.from(file).toString('base64')}`;
}
