import { type Message, objectAt, resultTo, stringAt, valueAt } from 'latchkey-mcp/message';
import { legacyTasks, modernVersion, serverInfoName } from 'latchkey-mcp/translation';
import type { CollectionCaller } from './member-calls.ts';
import type { MemberAnswer, MemberLists } from './member-lists.ts';

/** Assistants show about 2,000 characters of instructions. The collection's own instructions are put before these. */
const mostInstructions = 2000;
const tasksExtension = 'io.modelcontextprotocol/tasks';

/** The answer to `server/discover`: what the members can do together. MCP 2026-07-28 server/discover */
export async function introduction(
  id: string,
  caller: CollectionCaller,
  lists: MemberLists,
): Promise<Message> {
  const { target, upstream } = caller;
  const read = await Promise.all(
    upstream.members.map((member) => lists.read('server/discover', member, caller)),
  );
  const sections = upstream.members.flatMap(({ name }, place) => {
    const response = responseOf(read[place]);
    const text = response && stringAt(response, 'result', 'instructions')?.trim();
    if (!response || !text) return [];
    const title = stringAt(response, 'result', '_meta', serverInfoName, 'title') ?? name;
    return [{ title, text }];
  });
  const instructions = withinLimit(sections);
  const result = {
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities: capabilitiesOf(read),
    ...(instructions !== '' && { instructions }),
    ttlMs: 0,
    cacheScope: 'private',
    _meta: { [serverInfoName]: { name: target.name, version: '1' }, ...tasksOf(read) },
  };
  return resultTo(id, JSON.stringify(result));
}

function responseOf(read: MemberAnswer | undefined): Message | undefined {
  return read && 'answer' in read ? read.answer.response : undefined;
}

/**
 * The capabilities that at least one member has. A member that was never read may offer any list, and clients request only announced lists. The
 * collection itself announces changes of every list.
 */
function capabilitiesOf(read: readonly MemberAnswer[]): Record<string, unknown> {
  const responses = read.flatMap((one) => responseOf(one) ?? []);
  const isUnknown = read.some(({ outcome }) => outcome === 'away');
  const some = (...path: string[]) =>
    responses.some(
      (response) => valueAt(response, 'result', 'capabilities', ...path) !== undefined,
    );
  const subscribes = responses.some(
    (response) => valueAt(response, 'result', 'capabilities', 'resources', 'subscribe') === true,
  );
  const list = { listChanged: true };
  const extensions = responses.flatMap((response) =>
    Object.entries(objectAt(response, 'result', 'capabilities', 'extensions')).filter(
      ([name]) => name === tasksExtension,
    ),
  );
  return {
    ...((some('tools') || isUnknown) && { tools: list }),
    ...((some('prompts') || isUnknown) && { prompts: list }),
    ...((some('resources') || isUnknown) && {
      resources: { ...list, ...(subscribes && { subscribe: true }) },
    }),
    ...(some('completions') && { completions: {} }),
    ...(some('logging') && { logging: {} }),
    ...(extensions.length > 0 && { extensions: Object.fromEntries(extensions) }),
  };
}

/** The support of members for tasks of the legacy era, for callers of that era. */
function tasksOf(read: readonly MemberAnswer[]): object {
  const offers = read
    .flatMap((one) => responseOf(one) ?? [])
    .map((response) => objectAt(response, 'result', '_meta', legacyTasks));
  const can = (...path: string[]) =>
    offers.some((tasks) => path.reduce<unknown>((at, name) => Object(at)[name], tasks));
  if (!can('requests', 'tools', 'call')) return {};
  const requests = { tools: { call: {} } };
  return { [legacyTasks]: { requests, ...(can('cancel') && { cancel: {} }) } };
}

interface Section {
  readonly title: string;
  readonly text: string;
}

/** The instructions of the members, each under its title. Long ones are cut, so that all have a share. */
function withinLimit(sections: readonly Section[]): string {
  if (sections.length === 0) return '';
  const share = Math.floor(mostInstructions / sections.length);
  return sections
    .map(({ title, text }) => {
      // A title is one line: it cannot begin the section of another member.
      const heading = `## ${title.replaceAll(/\s+/gu, ' ').slice(0, 80)}\n`;
      const room = Math.max(0, share - heading.length - 2);
      const quoted = text.replaceAll(/^(#+ )/gmu, '#$1');
      return `${heading}${quoted.length > room ? `${quoted.slice(0, room)}…` : quoted}`;
    })
    .join('\n\n');
}
