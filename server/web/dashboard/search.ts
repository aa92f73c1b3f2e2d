import { longestSearch, searchFind, type SearchHit, searchLabel } from '#admin/search';
import { AdministrationRefusal } from '#admin/refusal';
import { displayName, html, type Html } from '#web/html';
import { type Frame, layout, pageHeading } from '#web/layout';
import { queryText } from '#web/page-request';
import type { DashboardGuard, PageHandler } from './guard.ts';
import { sendDashboardPage } from './page.ts';

/** `/search?q=`: everything in the organization that the person may see. Scripts show it as a dialog over any page. */
export function searchRoutes(guard: DashboardGuard): void {
  guard.get('/search', 'organization.read', showSearch);
}

const showSearch: PageHandler = async (visit, request, reply) => {
  const text = (queryText(request, 'q') ?? '').trim();
  const data = { text, ...(await search(text, visit.perform)) };
  return sendDashboardPage(reply, visit, searchPage, data, { crumbs: [{ text: 'Search' }] });
};

async function search(
  q: string,
  perform: Parameters<PageHandler>[0]['perform'],
): Promise<{ readonly hits: readonly SearchHit[]; readonly problem?: string }> {
  if (q === '') return { hits: [] };
  try {
    return { hits: (await perform(searchFind, { q })).items };
  } catch (refusal) {
    if (!(refusal instanceof AdministrationRefusal) || refusal.code !== 'invalid') throw refusal;
    const [first] = refusal.fields;
    return { hits: [], problem: `The text ${first?.problem ?? 'cannot be searched for'}.` };
  }
}

interface SearchPageData {
  readonly text: string;
  readonly hits: readonly SearchHit[];
  readonly problem?: string | undefined;
}

function searchPage({ text, hits, problem }: SearchPageData, frame: Frame): Html {
  const kinds = [...Map.groupBy(hits, ({ kind }) => kind)];
  const lead =
    'Servers, people, groups, keys, clients, agents, tools, pages, and the newest entries of the audit log: what you may see.';
  const nothing = text === '' ? undefined : `Nothing found for “${displayName(text)}”.`;
  const content = html`${pageHeading({ heading: 'Search', lead })}
<form method="get" role="search" class="find-form">
<input type="search" name="q" id="q" value="${text}" maxlength="${longestSearch}" aria-label="Search for" autocomplete="off" spellcheck="false" dir="auto"${text === '' && html` autofocus`}>
<button class="primary">Search</button>
</form>
<div id="hits" class="hits">
${
  kinds.length === 0
    ? (problem ?? nothing) && html`<p class="lead">${problem ?? nothing}</p>`
    : kinds.map(
        ([kind, some]) => html`<h2>${searchLabel(kind)}</h2>
<ul>
${some.map(
  ({ title, note, path }) =>
    html`<li><a href="${path}"><span dir="auto">${displayName(title, longestTitle)}</span>${note !== '' && html` <span class="soft" dir="auto">${displayName(note, longestNote)}</span>`}</a></li>`,
)}
</ul>`,
      )
}
</div>`;
  return layout({ title: 'Search', width: 'text' }, frame, content);
}

const longestTitle = 120;
const longestNote = 160;
