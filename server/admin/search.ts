import { z } from 'zod';

import { findEventSentences, sentenceText } from '#audit/event-sentences';
import {
  findAgents,
  findClients,
  findEvents,
  findGroups,
  findKeys,
  findPeople,
  findServers,
  findTools,
  type SearchTerms,
} from '#db/search';
import { listUsableServers } from '#db/server-access';
import type { Db } from '#db/transaction';
import { type Command, listCommand } from './command.ts';
import { fields } from './fields.ts';
import {
  type Actor,
  mayDo,
  organizationOperation,
  type Operation,
  type Permission,
} from './operation.ts';
import { organizationArgument, textArgument } from './positionals.ts';

// The search over everything that a person may see in an organization. Each kind is one entry of the table below.

/** One search result. */
interface Hit {
  readonly title: string;
  /** Distinguishes it from others with the same title; '' if nothing does. */
  readonly note: string;
  /** Follows `/dashboard/{organization}`. */
  readonly path: string;
}

interface SearchAt extends SearchTerms {
  readonly organization: string;
  readonly actor: Actor;
  readonly may: (permission: Permission) => boolean;
}

interface SearchKind {
  readonly label: string;
  /** The permission that a role needs to see the results. */
  readonly needs: Permission;
  readonly find: (db: Db, at: SearchAt) => Promise<readonly Hit[]>;
}

const mostUsable = 1000;

/** The ids of the servers that a person may use; `undefined` for the operator and for people who manage servers, who see all. */
async function usableServers(
  db: Db,
  { may, actor, organization }: SearchAt,
): Promise<readonly string[] | undefined> {
  if (may('server.manage') || actor.type === 'operator') return undefined;
  const usable = await listUsableServers(db, actor.userId, organization, mostUsable);
  return usable.map(({ id }) => id);
}

/** A page that is found by its title or by other words. */
interface FoundPage {
  readonly title: string;
  readonly path: string;
  readonly needs: Permission;
  /** Other words for it. */
  readonly words: string;
}

const pages: readonly FoundPage[] = [
  { title: 'Overview', path: '', needs: 'organization.read', words: 'home needs attention' },
  { title: 'Servers', path: '/servers', needs: 'server.read', words: 'endpoints collections mcp' },
  { title: 'Create server', path: '/new-server', needs: 'server.manage', words: 'new add' },
  {
    title: 'OAuth clients',
    path: '/clients',
    needs: 'client.read',
    words: 'applications workloads',
  },
  { title: 'Agents', path: '/agents', needs: 'agent.read', words: 'on-premise private network' },
  { title: 'Create agent', path: '/new-agent', needs: 'agent.manage', words: 'new add' },
  { title: 'People', path: '/people', needs: 'people.read', words: 'members roles users' },
  { title: 'Invitations', path: '/people/invitations', needs: 'people.manage', words: 'invite' },
  {
    title: 'Needs an owner',
    path: '/people/needs-owner',
    needs: 'agent.read',
    words: 'leaver hand over',
  },
  { title: 'Groups', path: '/groups', needs: 'people.read', words: 'teams access' },
  { title: 'Usage', path: '/usage', needs: 'usage.read', words: 'calls errors latency csv' },
  { title: 'Activity', path: '/activity', needs: 'organization.read', words: 'calls history' },
  {
    title: 'My applications',
    path: '/applications',
    needs: 'organization.read',
    words: 'devices assistants withdraw',
  },
  { title: 'Audit log', path: '/audit', needs: 'audit.read', words: 'events history export' },
  {
    title: 'Sign-in',
    path: '/sign-in',
    needs: 'provider.read',
    words: 'single sign-on sso oidc domains provider scim',
  },
  {
    title: 'Settings',
    path: '/settings',
    needs: 'organization.settings',
    words: 'title second factor rules',
  },
  {
    title: 'Mail server',
    path: '/settings/mail',
    needs: 'mail.read',
    words: 'smtp e-mail settings',
  },
  {
    title: 'Webhooks',
    path: '/settings/webhooks',
    needs: 'webhook.manage',
    words: 'events siem settings',
  },
  {
    title: 'Your notices',
    path: '/settings/notices',
    needs: 'notice.manage',
    words: 'e-mail alerts attention settings',
  },
];

const searchKinds = {
  server: {
    label: 'Servers',
    needs: 'server.read',
    async find(db, at) {
      const found = await findServers(db, at, await usableServers(db, at));
      return found.map(({ name, title, kind, disabled_at: disabled }) => ({
        title: title || name,
        note: [
          ...(title && title !== name ? [name] : []),
          ...(kind === 'collection' ? ['Collection'] : []),
          ...(disabled === null ? [] : ['Disabled']),
        ].join(' · '),
        path: `/servers/${name}`,
      }));
    },
  },
  page: {
    label: 'Pages',
    needs: 'organization.read',
    async find(_db, { text, limit, may }) {
      const wanted = text.toLowerCase();
      return pages
        .filter(({ needs }) => may(needs))
        .filter(({ title, words }) => `${title} ${words}`.toLowerCase().includes(wanted))
        .slice(0, limit)
        .map(({ title, path }) => ({ title, note: '', path }));
    },
  },
  person: {
    label: 'People',
    needs: 'people.read',
    async find(db, at) {
      const found = await findPeople(db, at);
      return found.map(({ id, email, role }) => ({
        title: email,
        note: role,
        path: `/people/${id}`,
      }));
    },
  },
  group: {
    label: 'Groups',
    needs: 'people.read',
    async find(db, at) {
      const found = await findGroups(db, at);
      return found.map(({ id, name }) => ({ title: name, note: '', path: `/groups/${id}` }));
    },
  },
  tool: {
    label: 'Tools',
    needs: 'server.manage',
    async find(db, at) {
      const found = await findTools(db, at);
      return found.map(({ name, server }) => ({
        title: name,
        note: server,
        path: `/servers/${server}/tools/one?${new URLSearchParams({ name }).toString()}`,
      }));
    },
  },
  key: {
    label: 'API keys',
    needs: 'key.read',
    async find(db, at) {
      if (!at.may('server.manage')) return [];
      const found = await findKeys(db, at);
      return found.map(({ id, name, hint, server }) => ({
        title: name,
        note: `${server} · ${hint}`,
        path: `/servers/${server}/keys/${id}`,
      }));
    },
  },
  client: {
    label: 'OAuth clients',
    needs: 'client.read',
    async find(db, at) {
      if (!at.may('server.manage')) return [];
      const found = await findClients(db, at);
      return found.map(({ id, name, server }) => ({
        title: name,
        note: server ?? 'Whole organization',
        path: server === null ? '/clients' : `/servers/${server}/clients/${id}`,
      }));
    },
  },
  agent: {
    label: 'Agents',
    needs: 'agent.read',
    async find(db, at) {
      const found = await findAgents(db, at);
      return found.map(({ name }) => ({ title: name, note: '', path: `/agents/${name}` }));
    },
  },
  event: {
    label: 'Audit log',
    needs: 'audit.read',
    async find(db, at) {
      const found = await findEvents(db, at);
      const sentenceOf = await findEventSentences(at.organization, found, db);
      return found.map((event) => {
        const { action, target, at: when } = event;
        return {
          title: sentenceText(sentenceOf(event)),
          note: `${new Date(when * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`,
          path: `/audit?${new URLSearchParams({ action, ...(target !== null && { target }) }).toString()}`,
        };
      });
    },
  },
} as const satisfies Readonly<Record<string, SearchKind>>;

export type SearchKindName = keyof typeof searchKinds;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a constant
const searchKindNames = Object.keys(searchKinds) as readonly SearchKindName[];

/** The name of a kind on pages. */
export function searchLabel(kind: SearchKindName): string {
  return searchKinds[kind].label;
}

/** How many things of one kind are found. */
const mostHits = 5;
/** The longest text that can be searched for. */
export const longestSearch = 100;

const hitSchema = z
  .object({
    kind: z.enum(searchKindNames),
    title: z.string(),
    note: z.string().describe('What tells it from others of the same title'),
    path: z.string().describe('The path of its page, below the base URL'),
  })
  .meta({ id: 'SearchHit' });

export type SearchHit = z.output<typeof hitSchema>;

export const searchFind = organizationOperation({
  name: 'search.find',
  doc: `Search everything that you may see in an organization: at most ${mostHits} things of each kind`,
  route: { method: 'GET', path: '/organizations/{organization}/search' },
  permission: 'organization.read',
  input: z.strictObject({
    organization: fields.organization,
    q: z
      .string()
      .trim()
      .min(2, 'is too short: at least 2 characters')
      .max(longestSearch)
      .describe('A part of a name, of an address or of an id; case does not matter'),
  }),
  output: z.object({ items: z.array(hitSchema) }),
  async run({ q: text }, { organization, role, actor }, { db }) {
    const { id: organizationId, name } = organization;
    const may = (permission: Permission) => mayDo(role, permission);
    const at = { organizationId, organization: name, actor, may, text, limit: mostHits };
    const items: SearchHit[] = [];
    for (const kind of searchKindNames) {
      const one = searchKinds[kind];
      if (!may(one.needs)) continue;
      for (const { title, note, path } of await one.find(db, at)) {
        items.push({ kind, title, note, path: `/dashboard/${name}${path}` });
      }
    }
    return { items };
  },
});

export const searchOperations: readonly Operation[] = [searchFind];

export const searchCommands: readonly Command[] = [
  listCommand(searchFind, {
    words: 'search',
    positionals: [organizationArgument, textArgument('TEXT', 'q')],
    doc: 'search servers, people, keys, tools and everything else of an organization',
    prints: ['kind', 'title', 'note', 'path'],
    empty: 'nothing found',
  }),
];
