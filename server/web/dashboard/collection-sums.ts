// Counts the tools of a collection, and estimates the tokens that a model reads of them.
import type { CollectionView } from '#admin/collections';
import { toolLengths } from '#db/definitions';
import { findServer } from '#db/servers';
import { listNamed, noToolRules } from '#db/tool-rules';
import type { Db } from '#db/transaction';
import type { Target } from '#model/endpoints';
import type { ToolSelection } from '#model/tool-rights';
import { html, type Html } from '#web/html';
import { inWords } from './questions.ts';

/** The size of the tools that a model reads. */
export interface CollectionSum {
  readonly tools: number;
  /** Approximate. */
  readonly tokens: number;
}

/** English text and JSON schemas have about this many characters per token. */
const charactersPerToken = 4;

type Name = CollectionView['names'][number];

export function shownTools({ names }: CollectionView): readonly Name[] {
  return names.filter(({ kind, state }) => kind === 'tool' && state === 'shown');
}

/** The size of those tools that their servers show. A tool without a known definition counts no tokens. */
export async function sumOf(
  db: Db,
  organization: string,
  tools: readonly Pick<Name, 'server' | 'name'>[],
): Promise<CollectionSum> {
  let [count, characters] = [0, 0];
  for (const server of new Set(tools.map((one) => one.server))) {
    const found = await findServer(db, organization, server);
    if (!found) continue;
    const lengths = await toolLengths(db, found.target.id);
    const own = tools.filter((one) => one.server === server && isOpen(found.target, one.name));
    count += own.length;
    for (const { name } of own) characters += lengths.get(name) ?? 0;
  }
  return { tools: count, tokens: Math.round(characters / charactersPerToken) };
}

/** Whether a server shows a tool at all. */
function isOpen({ hiddenTools, offered }: Target, name: string): boolean {
  return !hiddenTools.includes(name) && !offered.withheld.tool?.has(name);
}

/** The tools of a server that a selection includes, as far as the server has listed them. */
export async function includedTools(
  db: Db,
  organization: string,
  server: string,
  selection: ToolSelection,
): Promise<readonly Pick<Name, 'server' | 'name'>[]> {
  const found = await findServer(db, organization, server);
  if (!found) return [];
  const { target } = found;
  const listed = await listNamed(db, target, target.rules ?? noToolRules);
  const known = listed.flatMap(({ kind, name }) => (kind === 'tool' ? [name] : []));
  const included = selection.type === 'chosen' ? selection.tools : known;
  return included
    .filter((name) => isOpen(target, name))
    .filter((name) => selection.type !== 'read-only' || target.offered.readOnly.has(name))
    .map((name) => ({ server, name }));
}

/** The servers whose tools are unknown, because no one has listed them yet. */
export async function unlistedServers(
  db: Db,
  organization: string,
  servers: readonly string[],
): Promise<readonly string[]> {
  const known = await Promise.all(
    servers.map(async (server) => {
      const found = await findServer(db, organization, server);
      return found && listNamed(db, found.target, found.target.rules ?? noToolRules);
    }),
  );
  return servers.filter((_, place) => known[place]?.every(({ kind }) => kind !== 'tool'));
}

/** With more tools than these, some assistants leave tools out. */
export const fewTools = 40;
export const manyTools = 128;

/** How many tools assistants show, or their models accept, as far as that is known. See docs/collections.md. */
export const assistants = [
  { value: '', text: 'Any assistant', most: undefined },
  { value: 'cursor', text: 'Cursor', most: fewTools },
  { value: 'windsurf', text: 'Windsurf', most: 100 },
  { value: 'vs-code', text: 'VS Code with Copilot', most: manyTools },
] as const;

/** `34 tools, about 9,000 tokens` */
export function sizeWords({ tools, tokens }: CollectionSum): string {
  const size = tokens > 0 ? `, about ${aboutWords(tokens)} tokens` : '';
  return `${tools} ${tools === 1 ? 'tool' : 'tools'}${size}`;
}

/** An estimate, in two significant digits. */
function aboutWords(count: number): string {
  return count.toLocaleString('en', { maximumSignificantDigits: 2 });
}

function choiceWords(sum: CollectionSum, unlisted: readonly string[]): string {
  const limits = assistants.flatMap(({ text, most }) =>
    most === undefined ? [] : [`${text} shows ${sum.tools > most ? `only ${most}` : most}`],
  );
  const have = unlisted.length === 1 ? 'has not listed its' : 'have not listed their';
  const missing =
    unlisted.length === 0
      ? ''
      : ` ${inWords(unlisted)} ${have} tools yet, so they are not counted.`;
  return `With this choice, the collection has ${sizeWords(sum)}.${missing} ${limits.join(', ')}.`;
}

/**
 * The size of the choice in a form. It is counted again as boxes are ticked, or with a button. That button comes after the one that saves,
 * because the Enter key presses the first button of a form.
 */
export function runningCount(sum: CollectionSum, unlisted: readonly string[] = []): Html {
  return html`<div class="actions" data-count>
<p role="status">${choiceWords(sum, unlisted)}</p>
<button name="count" value="1">Count again</button>
</div>`;
}
