import { html, type Html } from '#web/html';
import type { Tabs } from '#web/layout';
import type { DashboardVisit } from './guard.ts';
import { serverPath } from './server-tabs.ts';

const parts = [
  { part: 'list', text: 'All tools', path: '', needs: 'server.read' },
  { part: 'review', text: 'Review', path: '/review', needs: 'server.manage' },
  { part: 'access', text: 'Who can use what', path: '/access', needs: 'people.read' },
  { part: 'check', text: 'Check one caller', path: '/check', needs: 'people.read' },
] as const;

/** The pages about the tools of a server. */
export function toolTabs(
  { organization, may }: DashboardVisit,
  server: string,
  here: (typeof parts)[number]['part'],
): Tabs {
  const home = `${serverPath(organization, server)}/tools`;
  return {
    label: 'Tools',
    entries: parts
      .filter(({ needs }) => may(needs))
      .map(({ part, text, path }) => ({ text, href: home + path, isHere: part === here })),
  };
}

/** The path of the page that shows what one caller may use: a person by e-mail address, or an API key or OAuth client by id. */
export function checkPath(organization: string, server: string, who: string): string {
  return `${serverPath(organization, server)}/tools/check?${new URLSearchParams({ who }).toString()}`;
}

/** The second line of tabs; nothing if there is only one page. */
export function partNavigation({ label, entries }: Tabs): Html | undefined {
  if (entries.length < 2) return undefined;
  return html`<nav aria-label="${label}">
<ul class="parts">
${entries.map(({ text, href, isHere }) => html`<li><a href="${href}"${isHere && html` aria-current="page"`}>${text}</a></li>`)}
</ul>
</nav>`;
}

/** The path of the page of one definition that a server offers. Its name may contain any character, so it is in the query. */
export function toolPath(
  organization: string,
  server: string,
  { kind, name }: { readonly kind: string; readonly name: string },
): string {
  const query = new URLSearchParams({ ...(kind !== 'tool' && { kind }), name });
  return `${serverPath(organization, server)}/tools/one?${query.toString()}`;
}
