import { audienceOf, listNamed, noToolRules } from '#db/tool-rules';
import { findServer } from '#db/servers';
import type { Target } from '#model/endpoints';
import type { ToolSelection } from '#model/tool-rights';
import { html, type Html } from '#web/html';
import type { Badge } from '#web/layout';
import type { Choosable } from '#web/tool-choice';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

const readOnlyBadge: Badge = { text: 'Read-only', tone: 'plain' };
const groupsBadge: Badge = { text: 'Some groups', tone: 'plain' };

/** The tools, prompts and resources that a server is known to offer, for a choice in a form, with badges that help to choose. */
export async function choosableTools(
  { organization }: DashboardVisit,
  name: string,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<readonly Choosable[]> {
  const server = await findServer(db, organization, name);
  if (!server) return [];
  const { target } = server;
  const known = await listNamed(db, target, target.rules ?? noToolRules);
  return known.map(({ kind, name: own }) => {
    return { kind, name: own, badges: badgesOf(target, { kind, name: own }) };
  });
}

function badgesOf(
  { offered, rules = noToolRules }: Target,
  one: Pick<Choosable, 'kind' | 'name'>,
): readonly Badge[] {
  return [
    ...(one.kind === 'tool' && offered.readOnly.has(one.name) ? [readOnlyBadge] : []),
    ...(audienceOf(rules, one) === 'everyone' ? [] : [groupsBadge]),
  ];
}

/** Lists the names in a selection; `undefined` for a selection without names. */
export function selectedNames(selection: ToolSelection): Html | undefined {
  if (selection.type !== 'chosen') return undefined;
  const { tools, prompts, resources } = selection;
  const lists = [
    { text: 'Tools', names: tools },
    { text: 'Prompts', names: prompts },
    { text: 'Resources', names: resources },
  ];
  return html`${lists.map(
    ({ text, names }) =>
      names.length > 0 &&
      html`<h2>${text}</h2>
<ul class="names">
${names.map((name) => html`<li><code dir="auto">${name}</code></li>`)}
</ul>`,
  )}`;
}
