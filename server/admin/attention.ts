import { z } from 'zod';

import { openAccessRequests } from '#db/access-requests';
import {
  type AttentionSpan,
  type FailingServer,
  listAgentsAway,
  listEndedAccounts,
  listExpiredInvitations,
  listExpiringCredentials,
  listFailingServers,
  listFailingWebhooks,
  listFormerOwners,
  listOldKeys,
  listRefusedHeaders,
  listUndeliverable,
} from '#db/attention';
import { countWaitingDefinitions } from '#db/definitions';
import { searchCalls, watermarkAt } from '#db/find-calls';
import { countMails, findMailServer } from '#db/mail';
import type { Organization } from '#db/organizations';
import { listScimTokens } from '#db/scim-tokens';
import type { Db } from '#db/transaction';
import type { CallEnd } from '#model/calls';
import type { EpochSeconds } from '#model/clock';
import type { Role } from '#model/roles';
import { callsAt } from './calls.ts';
import { type Command, listCommand } from './command.ts';
import { fields } from './fields.ts';
import { mayDo, organizationOperation, type Operation, type Permission } from './operation.ts';
import { organizationArgument } from './positionals.ts';

// Finds what needs the attention of an administrator, for the overview, the API, the command line and notices. Each kind is one entry
// of the table below, from which all of these derive.

/** One thing that needs attention. Its texts contain no secret. */
interface Finding {
  /** Identifies what the finding is about, uniquely within the kind: one notice is sent for each subject. */
  readonly subject: string;
  /** A sentence without a period. */
  readonly text: string;
  /** Since when, or when it happens; null if that is unknown. */
  readonly at: EpochSeconds | null;
  /** What to do about it; `path` follows `/dashboard/{organization}`. */
  readonly action: { readonly text: string; readonly path: string };
}

/** A kind of thing that needs attention. */
interface AttentionKind {
  /** The name by which people choose notices. */
  readonly label: string;
  /** A word or two about the state of such a thing. */
  readonly state: string;
  /** `bad` if something does not work, `care` if it soon may not, or if someone waits. */
  readonly tone: 'bad' | 'care';
  /** The permission that a role needs to see it. */
  readonly needs: Permission;
  /** How long it must last until a notice is sent. Default: 0. */
  readonly settleSeconds?: number;
  /** Whether notices of it are sent by e-mail; they are unless it is `false`. */
  readonly isMailed?: boolean;
  /** At most `limit` things, the most urgent first. */
  readonly find: (db: Db, span: AttentionSpan) => Promise<readonly Finding[]>;
}

const daySeconds = 86_400;
/** Keys and secrets are listed this long before they expire. */
const expiresWithin = 14 * daySeconds;
/** Keys, secrets and invitations are listed this long after they expired. */
const expiredWithin = 7 * daySeconds;
/** After this time, rotation of a key is due. */
const oldKeyDays = 90;
const undeliverableWithin = 7 * daySeconds;
const webhookFailsFor = 3600;
/** How long failed calls of all servers together are searched. */
const searchBudgetMs = 200;

/** All kinds, in the order of the list: what does not work comes first. */
export const attentionKinds = {
  'server-failing': {
    label: 'Servers whose calls fail',
    state: 'Failing',
    tone: 'bad',
    needs: 'activity.read',
    async find(db, span) {
      const findings: Finding[] = [];
      const failing = await listFailingServers(db, span);
      const endMs = performance.now() + searchBudgetMs;
      for (const server of failing) {
        const { id, name, title, counted: what, total, failed } = server;
        const isRecorded =
          what === 'calls' && (await mayHaveRecordedFailure(db, server, { ...span, endMs }));
        const from = new Date(server.since * 1000).toISOString().replace('.000Z', 'Z');
        const calls = `/activity?endpoint=${id}&outcome=failed&from=${from}`;
        findings.push({
          subject: id,
          text: `${failed} of ${counted(total, what === 'calls' ? 'call' : 'request')} to ${title || name} failed in the last hour`,
          at: null,
          action: isRecorded
            ? { text: 'View calls', path: calls }
            : { text: 'View usage', path: `/usage?range=1h&by=method&server=${id}` },
        });
      }
      return findings;
    },
  },
  'agent-away': {
    label: 'Agents that are not connected',
    state: 'Offline',
    tone: 'bad',
    needs: 'agent.read',
    settleSeconds: 300,
    async find(db, span) {
      const found = await listAgentsAway(db, span);
      return found.map(({ id, name, lastUsedAt, servers }) => ({
        subject: id,
        text: `The agent ${name} ${lastUsedAt === null ? 'has never connected' : 'is not connected'}, and ${servers === 1 ? '1 server needs' : `${servers} servers need`} it`,
        at: null,
        action: { text: 'View agent', path: `/agents/${name}` },
      }));
    },
  },
  'mail-server': {
    label: 'Mail server does not work',
    state: 'Failing',
    tone: 'bad',
    needs: 'mail.read',
    isMailed: false,
    async find(db, { organizationId }) {
      const server = await findMailServer(db, organizationId);
      if (!server?.lastFailure || server.attempts === 0) return [];
      const { waiting } = await countMails(db, organizationId);
      return [
        {
          subject: server.host,
          text: `The mail server ${server.host} ${server.lastFailure.why}; ${counted(waiting, 'mail waits', 'mails wait')}`,
          at: server.lastFailure.at,
          action: { text: 'View mail server', path: '/settings/mail' },
        },
      ];
    },
  },
  'mail-undeliverable': {
    label: 'E-mails that cannot be delivered',
    state: 'Refused',
    tone: 'bad',
    needs: 'mail.read',
    async find(db, span) {
      const since = span.now - undeliverableWithin;
      const found = await listUndeliverable(db, { ...span, since });
      return found.map(({ recipient, refusedAt, count }) => ({
        subject: recipient,
        text: `${count === 1 ? 'A mail' : `${count} mails`} to ${recipient} could not be delivered`,
        at: refusedAt,
        action: { text: 'View mails', path: '/settings/mail' },
      }));
    },
  },
  'webhook-failing': {
    label: 'Webhooks that get no events',
    state: 'Failing',
    tone: 'bad',
    needs: 'webhook.manage',
    async find(db, span) {
      const before = span.now - webhookFailsFor;
      const found = await listFailingWebhooks(db, { ...span, before });
      return found.map(({ id, url, since, isDisabled }) => ({
        subject: id,
        // The path of the URL may be a secret.
        text: `The webhook to ${new URL(url).host} ${isDisabled ? 'was disabled, because events could not be delivered' : 'gets no events, because its receiver fails'}`,
        at: since,
        action: { text: 'View webhook', path: `/settings/webhooks/${id}` },
      }));
    },
  },
  'headers-refused': {
    label: 'Header values that a server refuses',
    state: 'Refused',
    tone: 'bad',
    needs: 'server.manage',
    async find(db, span) {
      const found = await listRefusedHeaders(db, span);
      return found.map(({ id, name, title, refusedAt }) => ({
        subject: id,
        text: `${title || name} refuses the current values of its headers and accepts the previous ones`,
        at: refusedAt,
        action: { text: 'View headers', path: `/servers/${name}/upstream` },
      }));
    },
  },
  'account-ended': {
    label: 'People’s accounts that stopped working',
    state: 'Sign-in required',
    tone: 'care',
    needs: 'server.manage',
    async find(db, span) {
      const found = await listEndedAccounts(db, span);
      return found.map(({ id, name, title, userId, email, failedAt }) => ({
        subject: `${id} ${userId}`,
        text: `The account of ${email} at ${title || name} expired; they must connect it again`,
        at: failedAt,
        action: { text: 'View accounts', path: `/servers/${name}/upstream` },
      }));
    },
  },
  'owner-missing': {
    label: 'Keys, clients and agents without an owner',
    state: 'Needs an owner',
    tone: 'care',
    needs: 'agent.read',
    async find(db, span) {
      const found = await listFormerOwners(db, span);
      return found.map(({ userId, email, since, count }) => ({
        subject: userId,
        text: `${counted(count, 'key, client or agent', 'keys, clients and agents')} of ${email ?? 'a deleted person'} ${count === 1 ? 'needs' : 'need'} an owner`,
        at: since,
        action: { text: 'Hand over', path: '/people/needs-owner' },
      }));
    },
  },
  'scim-token-known': {
    label: 'SCIM tokens known to people who left',
    state: 'Needs rotation',
    tone: 'care',
    needs: 'provider.read',
    async find(db, { organizationId, limit, now }) {
      const known = (await listScimTokens(db, organizationId)).filter(
        ({ isCreatorGone, revokedAt, expiresAt = Infinity }) =>
          isCreatorGone && revokedAt === undefined && expiresAt > now,
      );
      return known.slice(0, limit).map(({ id, hint }) => ({
        subject: id,
        text: `The creator of the SCIM token ${hint} left and may know it`,
        at: null,
        action: { text: 'Rotate', path: '/sign-in/scim' },
      }));
    },
  },
  'access-requested': {
    label: 'Requests for access',
    state: 'Waiting',
    tone: 'care',
    needs: 'people.read',
    // Owners and admins get a mail of each request anyway.
    isMailed: false,
    async find(db, { organizationId, limit }) {
      const { items } = await openAccessRequests(db, organizationId, limit);
      return items.map(({ id, email, server, title, createdAt }) => ({
        subject: id,
        text: `${email} asks for access to ${title || server}`,
        at: createdAt,
        action: { text: 'Decide', path: '/people/requests' },
      }));
    },
  },
  'invitation-expired': {
    label: 'Invitations that expired',
    state: 'Expired',
    tone: 'care',
    needs: 'people.manage',
    async find(db, span) {
      const since = span.now - expiredWithin;
      const found = await listExpiredInvitations(db, { ...span, since });
      return found.map(({ id, email, note, role, expiresAt }) => {
        const recipient = email ?? (note && `“${note}”`);
        const what = recipient
          ? `The invitation for ${recipient}`
          : `An invitation with the role ${role}`;
        return {
          subject: id,
          text: `${what} expired before anyone accepted it`,
          at: expiresAt,
          action: { text: 'Renew', path: '/people/invitations?state=expired' },
        };
      });
    },
  },
  'review-waiting': {
    label: 'Tools to review',
    state: 'Review',
    tone: 'care',
    needs: 'server.manage',
    async find(db, { organizationId, limit }) {
      const found = await countWaitingDefinitions(db, organizationId);
      return found.slice(0, limit).map(({ serverId, name, waiting }) => ({
        subject: serverId,
        text: `${counted(waiting, 'definition')} of ${name} ${waiting === 1 ? 'waits' : 'wait'} for review`,
        at: null,
        action: { text: 'Review', path: `/servers/${name}/tools/review` },
      }));
    },
  },
  'key-expiring': {
    label: 'Keys and client secrets that expire',
    state: 'Expires',
    tone: 'care',
    needs: 'key.manage',
    async find(db, span) {
      const { now } = span;
      const [since, until] = [now - expiredWithin, now + expiresWithin];
      const found = await listExpiringCredentials(db, { ...span, since, until });
      return found.map(({ kind, id, clientId, name, server, agent, expiresAt }) => {
        const of = server ?? agent;
        const what =
          kind === 'key' ? `The API key ${name}` : `A secret of the OAuth client ${name}`;
        const home = server === null ? `/agents/${agent}` : `/servers/${server}/keys/${id}`;
        const ofClient = server === null ? '/clients' : `/servers/${server}/clients/${clientId}`;
        const page = kind === 'key' ? home : ofClient;
        return {
          subject: id,
          text: `${what}${of === null ? '' : ` of ${of}`} ${expiresAt <= now ? 'expired' : 'expires'}`,
          at: expiresAt,
          action:
            server === null
              ? { text: 'View', path: page }
              : { text: 'Rotate', path: `${page}/rotate` },
        };
      });
    },
  },
  'key-old': {
    label: `API keys older than ${oldKeyDays} days`,
    state: 'Rotation due',
    tone: 'care',
    needs: 'key.manage',
    async find(db, span) {
      const before = span.now - oldKeyDays * daySeconds;
      const found = await listOldKeys(db, { ...span, before });
      return found.map(({ id, name, server, createdAt }) => ({
        subject: id,
        text: `The API key ${name} of ${server} is ${Math.floor((span.now - createdAt) / daySeconds)} days old`,
        at: null,
        action: { text: 'Rotate', path: `/servers/${server}/keys/${id}/rotate` },
      }));
    },
  },
} as const satisfies Readonly<Record<string, AttentionKind>>;

export type AttentionKindName = keyof typeof attentionKinds;

/** The names of all kinds, in their order. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a constant
export const attentionKindNames = Object.keys(attentionKinds) as readonly AttentionKindName[];

/** The ends that count as failures of the server. */
const failedEnds = ['upstream_error', 'tool_error', 'protocol_error'] as const satisfies CallEnd[];

/**
 * Whether Activity has failed calls of a server, which it lacks if the operator records no calls. Also `true` if the search has not ended
 * by `endMs`, a time of `performance.now()`.
 */
async function mayHaveRecordedFailure(
  db: Db,
  { id, since }: Pick<FailingServer, 'id' | 'since'>,
  { organizationId, now, endMs }: Omit<AttentionSpan, 'limit'> & { readonly endMs: number },
): Promise<boolean> {
  const at = await callsAt({ endpoint: id }, db);
  for (const end of failedEnds) {
    const budgetMs = endMs - performance.now();
    if (budgetMs <= 0) return true;
    const { calls, stoppedAt } = await searchCalls(db, {
      organizationId,
      filter: { ...at, end, fromMs: since * 1000 },
      limit: 1,
      watermarkMs: watermarkAt(now),
      budgetMs,
    });
    if (calls.length > 0 || stoppedAt !== undefined) return true;
  }
  return false;
}

function counted(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}

/** The kind with a name. */
export function attentionKind(name: AttentionKindName): AttentionKind {
  return attentionKinds[name];
}

/** The kinds that a role sees. */
export function attentionKindsOf(role: Role): readonly AttentionKindName[] {
  return attentionKindNames.filter((name) => mayDo(role, attentionKinds[name].needs));
}

/** A thing that needs attention, with its kind. */
export interface FoundAttention extends Finding {
  readonly kind: AttentionKindName;
}

/** How many things of one kind are listed. */
export const mostOfAKind = 20;

/** Finds what needs attention in an organization now, of these kinds. */
export async function findAttention(
  db: Db,
  { id: organizationId }: Pick<Organization, 'id'>,
  kinds: readonly AttentionKindName[],
  { now, limit }: { readonly now: EpochSeconds; readonly limit: number },
): Promise<FoundAttention[]> {
  const found: FoundAttention[] = [];
  for (const kind of kinds) {
    const findings = await attentionKinds[kind].find(db, { organizationId, now, limit });
    for (const one of findings) found.push({ kind, ...one });
  }
  return found;
}

const attentionViewSchema = z
  .object({
    kind: z.enum(attentionKindNames),
    state: z.string().describe('A word or two, such as "Failing"'),
    tone: z
      .enum(['bad', 'care'])
      .describe('`bad`: something does not work; `care`: it soon may not, or someone waits'),
    subject: z.string().describe('The id of what it is about; unique within the kind'),
    text: z.string().describe('A sentence without a period'),
    at: fields.maybeAt.describe('Since when, or when it happens; null if that is unknown'),
    action: z.object({
      text: z.string(),
      path: z.string().describe('The path of the page to act on, below the base URL'),
    }),
  })
  .meta({ id: 'Attention' });

export type AttentionView = z.output<typeof attentionViewSchema>;

export const attentionList = organizationOperation({
  name: 'attention.list',
  doc: `List what needs the attention of someone with your role, at most ${mostOfAKind} things of a kind`,
  route: { method: 'GET', path: '/organizations/{organization}/attention' },
  permission: 'organization.read',
  input: z.strictObject({ organization: fields.organization }),
  output: z.object({
    items: z.array(attentionViewSchema),
    more: z.array(z.enum(attentionKindNames)).describe('Kinds of which there is more'),
  }),
  async run(_input, { organization, role }, { db, clock }) {
    const at = { now: clock.now(), limit: mostOfAKind + 1 };
    const found = await findAttention(db, organization, attentionKindsOf(role), at);
    const byKind = Map.groupBy(found, ({ kind }) => kind);
    const more = [...byKind].filter(([, some]) => some.length > mostOfAKind);
    const items = [...byKind.values()].flatMap((some) => some.slice(0, mostOfAKind));
    return {
      items: items.map((one) => toView(one, organization.name)),
      more: more.map(([kind]) => kind),
    };
  },
});

function toView({ kind, action, ...found }: FoundAttention, organization: string): AttentionView {
  const { state, tone } = attentionKinds[kind];
  const { text, path } = action;
  const there = { text, path: `/dashboard/${organization}${path}` };
  return { kind, state, tone, ...found, action: there };
}

export const attentionOperations: readonly Operation[] = [attentionList];

export const attentionCommands: readonly Command[] = [
  listCommand(attentionList, {
    words: 'attention',
    positionals: [organizationArgument],
    doc: 'list what needs attention in an organization, with the page to act on',
    prints: [
      'kind',
      'state',
      'text',
      { event_at: 'at' },
      { action: ({ action }) => action.text, page: ({ action }) => action.path },
    ],
    empty: 'nothing needs attention',
  }),
];
