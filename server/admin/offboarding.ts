import { z } from 'zod';

import { announceLeaver } from '#accounts/leaving';
import { shellWord } from '#model/shell-word';
import { revokeAgent } from '#db/agents';
import { revokeClient } from '#db/clients';
import { findInvitationsTo } from '#db/invitations';
import { revokeKey } from '#db/keys';
import {
  countEndings,
  countOwnerless,
  endLastAccess,
  handOver,
  listOwned,
  listTakers,
  type OwnedResource,
} from '#db/leavers';
import type { Organization } from '#db/organizations';
import { removeMember } from '#db/people';
import { countScimTokensOf } from '#db/scim-tokens';
import { findSettings } from '#db/settings';
import { listAccessOfPerson } from '#db/server-access';
import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { roles } from '#model/roles';
import { administer, administerList, type Command, type CommandPorts } from './command.ts';
import { fields } from './fields.ts';
import { checkMayOwn } from './leavers.ts';
import {
  type Actor,
  mayDo,
  noteDone,
  organizationOperation,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import {
  checkOwnerChange,
  ofPerson,
  ownMember,
  personList,
  personViewSchema,
  settled,
  toPersonView,
} from './people.ts';
import { requireMember, type Ports } from './positionals.ts';
import { printMade, printRows } from './print.ts';
import { type AdministrationRefusal, conflict } from './refusal.ts';
import { viewOf } from './views.ts';

const path = '/organizations/{organization}/people/{userId}';
const target = ({ userId }: { userId: string }) => `user:${userId}`;
const mostOwned = 500;
const mostServers = 500;

const ownedViewSchema = z
  .object({
    kind: z.enum(['key', 'client', 'agent']),
    id: z.string(),
    name: z.string(),
    server: z.string().nullable().describe('The server of a key or client'),
    agent: z.string().nullable().describe('The agent of a key; the key goes with it'),
    createdAt: fields.at,
    lastUsedAt: fields.maybeAt,
  })
  .meta({ id: 'OwnedResource' });

export type OwnedView = z.output<typeof ownedViewSchema>;

export const personServers = organizationOperation({
  name: 'person.servers',
  doc: `List the servers that a person may use, and by which groups; at most ${mostServers}`,
  route: { method: 'GET', path: `${path}/servers` },
  permission: 'people.read',
  input: z.strictObject(ofPerson),
  output: z.object({
    items: z.array(
      z
        .object({
          server: z.string(),
          title: z.string(),
          isDisabled: z.boolean(),
          groups: z.array(z.string()).describe('Empty if everyone may use the server'),
        })
        .meta({ id: 'ServerOfPerson' }),
    ),
  }),
  async run({ userId }, { organization }, ports) {
    await ownMember(organization.id, userId, ports);
    const found = await listAccessOfPerson(ports.db, userId, organization.name, mostServers);
    const items = found.map(({ name: server, title, isDisabled, groups }) => {
      return { server, title, isDisabled, groups: [...groups] };
    });
    return { items };
  },
});

const endingsSchema = z
  .object({
    applications: z.int().describe('Applications that act for the person'),
    connections: z.int().describe('Their connected accounts at upstreams'),
    invitations: z.int().describe('Invitations that they made and that no one accepted yet'),
    invitationsTo: z
      .int()
      .describe(
        'Invitations to their address that no one accepted, also those that expired lately',
      ),
    sessions: z
      .int()
      .describe('Browsers in which they are signed in, as far as these sessions end'),
    tokens: z.int().describe('Their personal tokens, if they belong to no other organization'),
    scimTokens: z.int().describe('Tokens of the directory that they created, if these are revoked'),
    staysElsewhere: z.boolean().describe('Whether they belong to another organization'),
  })
  .meta({ id: 'Endings' });

export const personLeaving = organizationOperation({
  name: 'person.leaving',
  doc: `Tell what ends when a person leaves, and what they answer for and someone has to take over, at most ${mostOwned}`,
  route: { method: 'GET', path: `${path}/leaving` },
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: z
    .object({
      person: personViewSchema,
      owned: z.array(ownedViewSchema),
      ends: endingsSchema,
      suspends: z.boolean().describe('Whether what no one takes over is suspended'),
    })
    .meta({ id: 'Leaving' }),
  async run({ userId }, { organization }, ports) {
    const person = toPersonView(await ownMember(organization.id, userId, ports));
    return { person, ...(await leavingOf(person, organization, ports)) };
  },
});

async function leavingOf(
  { id: userId, email }: z.output<typeof personViewSchema>,
  { id, name }: Organization,
  { db, clock }: WithDbAndClock,
) {
  const now = clock.now();
  const suspends = (await findSettings(db, name))?.leaverResources !== 'keep';
  const found = await listOwned(db, id, userId, mostOwned);
  const owned = found.map((one) => viewOf(ownedViewSchema, one));
  const scimTokens = suspends ? await countScimTokensOf(db, id, userId, now) : 0;
  const { length: invitationsTo } = await findInvitationsTo(db, id, email);
  const ends = { ...(await countEndings(db, id, userId, now)), invitationsTo, scimTokens };
  return { owned, ends, suspends };
}

/** The fate of a resource that the person owned: someone takes it over, it is revoked, or it is left without an owner. */
const fate = z.union([
  z.enum(['revoke', 'leave']),
  z.string().max(100).describe('The id of the owner or admin who takes it over'),
]);

export const personOffboard = organizationOperation({
  name: 'person.offboard',
  doc: 'Remove a person, and hand over or revoke what they own, in one step; also ends their account’s sessions and tokens if they belong to no other organization',
  route: { method: 'POST', path: `${path}/offboard` },
  permission: 'people.manage',
  input: z.strictObject({
    ...ofPerson,
    to: fate
      .default('leave')
      .describe(
        'What becomes of everything without an entry in `except`: the id of the owner or admin who takes it over, `revoke`, or `leave`, for someone to take it over later',
      ),
    except: z
      .array(z.strictObject({ resourceId: z.string().max(100), to: fate }))
      .max(mostOwned)
      .default([]),
  }),
  output: z
    .object({
      person: personViewSchema,
      handedOver: z.int(),
      revoked: z.int(),
      left: z.int().describe('What needs an owner now'),
    })
    .meta({ id: 'Offboarded' }),
  target: ({ userId }) => target({ userId }),
  async run({ userId, to, except }, { organization, role: by, actor }, ports) {
    const member = await ownMember(organization.id, userId, ports);
    checkOwnerChange(by, member.role);
    const owned = await listOwned(ports.db, organization.id, userId, mostOwned + 1);
    if (owned.length > mostOwned) throw tooMuch();
    const fates = fatesOf(owned, { to, except });
    settled(await removeMember(ports.db, organization.id, userId, member.role));
    // Not earlier: from here on, no role can change until the transaction ends.
    await checkTakers(organization.id, userId, fates, ports);
    const done = await settleOwned(owned, fates, { organization, actor }, ports);
    const leaver = { id: userId, email: member.email };
    const now = ports.clock.now();
    await announceLeaver(ports.db, organization, leaver, now, actor);
    await endLastAccess(ports.db, userId, now);
    const { key, client, agent } = await countOwnerless(ports.db, organization.id, userId);
    return { person: toPersonView(member), ...done, left: key + client + agent };
  },
});

type Fates = ReadonlyMap<string, string>;

/** The fate of each resource, by id. @throws {AdministrationRefusal} `conflict` if an exception names nothing that the person owns */
function fatesOf(
  owned: readonly OwnedResource[],
  {
    to,
    except,
  }: { to: string; except: readonly { readonly resourceId: string; readonly to: string }[] },
): Fates {
  const fates = new Map(owned.map(({ id }) => [id, to]));
  for (const one of except) {
    if (!fates.has(one.resourceId)) {
      const why = `this person does not own ${one.resourceId}: it may have been handed over or revoked meanwhile`;
      throw conflict(why);
    }
    fates.set(one.resourceId, one.to);
  }
  return fates;
}

const withoutTaker = new Set(['revoke', 'leave']);

async function checkTakers(
  organizationId: string,
  leaver: string,
  fates: Fates,
  ports: WithDb,
): Promise<void> {
  const takers = new Set([...fates.values()].filter((to) => !withoutTaker.has(to)));
  if (takers.has(leaver)) throw conflict('the person who leaves cannot take anything over');
  for (const taker of takers) await checkMayOwn(organizationId, taker, ports);
}

function changedMeanwhile(): AdministrationRefusal {
  return conflict('what this person answers for has changed in the meantime: reload and try again');
}

function tooMuch(): AdministrationRefusal {
  const why = `this person answers for more than ${mostOwned} keys, clients and agents: revoke some first`;
  return conflict(why);
}

/** Hands over and revokes resources, with an entry in the audit log for each. An agent takes its keys along. */
async function settleOwned(
  owned: readonly OwnedResource[],
  fates: Fates,
  at: { readonly organization: Organization; readonly actor: Actor },
  ports: WithDbAndClock,
): Promise<{ handedOver: number; revoked: number }> {
  const done = { handedOver: 0, revoked: 0 };
  // Keys before their agents: an agent takes along the keys that no one has taken over by then.
  const order = { key: 0, client: 1, agent: 2 };
  for (const { kind, id } of owned.toSorted((one, other) => order[one.kind] - order[other.kind])) {
    const to = fates.get(id) ?? 'leave';
    if (to === 'leave') continue;
    if (to === 'revoke') {
      await revokers[kind](ports.db, id, ports.clock.now());
      await noteDone({ action: `${kind}.revoke`, target: `${kind}:${id}` }, at, ports);
      done.revoked += 1;
    } else {
      const outcome = await handOver(ports.db, at.organization.id, { kind, id }, to);
      if (outcome !== 'done') throw changedMeanwhile();
      const event = { action: 'leaver.hand-over', target: `${kind}:${id} user:${to}` } as const;
      await noteDone(event, at, ports);
      done.handedOver += 1;
    }
  }
  return done;
}

const revokers = { key: revokeKey, client: revokeClient, agent: revokeAgent } as const;

/** The members who can take over what someone owns, sorted by address. */
export function takersInsteadOf(
  userId: string,
  { id }: Pick<Organization, 'id'>,
  { db }: WithDb,
): Promise<{ readonly id: string; readonly email: string }[]> {
  const able = roles.filter((role) => mayDo(role, 'key.manage'));
  return listTakers(db, id, able, userId);
}

export const offboardingOperations: readonly Operation[] = [
  personServers,
  personLeaving,
  personOffboard,
];

export const offboardCommand: Command = {
  words: 'user offboard',
  positionals: ['EMAIL'],
  options: [
    {
      name: 'organization',
      value: 'ORG',
      required: true,
      doc: 'the organization that the person leaves',
    },
    {
      name: 'to',
      value: 'EMAIL',
      doc: 'the owner or admin who takes over what the person answered for',
    },
    {
      name: 'except',
      value: 'ID=EMAIL',
      repeated: true,
      doc: 'another owner or admin for one key, client or agent',
    },
    {
      name: 'revoke',
      value: 'ID',
      repeated: true,
      doc: 'a key, client or agent to revoke instead',
    },
    { name: 'preview', doc: 'only print what the person answers for and what would end' },
    {
      name: 'yes',
      doc: 'remove the person although keys, clients or agents have no new owner: they are suspended until someone takes them over',
    },
    json,
  ],
  doc: 'remove a person, and hand over or revoke what they own, in one step',
  async run(input, ports) {
    const organization = input.must('organization');
    const leaver = input.positionals[0] ?? '';
    const { id: userId } = await requireMember(leaver, organization, ports.stores);
    if (input.flag('preview')) return preview({ organization, userId }, input.flag('json'), ports);
    const idOf = async (email: string) =>
      (await requireMember(email, organization, ports.stores)).id;
    const email = input.text('to');
    const to = email === undefined ? 'leave' : await idOf(email);
    const except = input.list('revoke').map((resourceId) => ({ resourceId, to: 'revoke' }));
    for (const text of input.list('except')) {
      const [, resourceId = '', taker = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
      if (taker === '') throw new UsageError(`--except '${text}' is not ID=EMAIL`);
      except.push({ resourceId, to: await idOf(taker) });
    }
    const again = `latchkey-server user offboard ${shellWord(leaver)} --organization ${organization}`;
    const { owned, suspends } = await administer(personLeaving, { organization, userId }, ports);
    const stopped = to === 'leave' && suspends ? withoutFate(owned, except) : [];
    if (stopped.length > 0 && !input.flag('yes')) {
      throw new CommandError(
        `nothing was changed: no one takes over what would stop working: ${listed(stopped)}`,
        `${again} --to EMAIL hands them over; --preview lists them; --yes suspends them until someone takes them over`,
      );
    }
    const { person, handedOver, revoked, left } = await administer(
      personOffboard,
      { organization, userId, to, except },
      ports,
      async () =>
        except.every(({ resourceId }) => owned.some(({ id }) => id === resourceId)) &&
        (await isLastOwner({ organization, userId }, ports))
          ? `latchkey-server user set-role EMAIL --organization ${organization} --role owner`
          : `${again} --preview`,
    );
    const isJson = input.flag('json');
    const rest = !isJson && suspends ? { suspended: left } : { left };
    const facts = { email: person.email, organization, handed_over: handedOver, revoked, ...rest };
    printMade(facts, { json: isJson, out: ports.out });
    if (left > 0) ports.tell(`hint: latchkey-server leaver list ${organization}`);
  },
};

/** The resources that have no new owner and are not revoked. A key of an agent goes with the agent. */
function withoutFate(
  owned: readonly OwnedView[],
  except: readonly { readonly resourceId: string }[],
): OwnedView[] {
  const ids = new Set(except.map(({ resourceId }) => resourceId));
  const rest = owned.filter(({ id }) => !ids.has(id));
  const agents = new Set(owned.flatMap(({ kind, name }) => (kind === 'agent' ? [name] : [])));
  for (const { kind, name } of rest) if (kind === 'agent') agents.delete(name);
  return rest.filter(({ agent }) => agent === null || !agents.has(agent));
}

const mostNamed = 5;

/** `the key Nightly (key_…), the agent berlin (agent_…), 3 more` */
export function listed(owned: readonly OwnedView[]): string {
  const named = owned
    .slice(0, mostNamed)
    .map(({ kind, name, id }) => `the ${kind} ${name} (${id})`);
  const more = owned.length - named.length;
  return [...named, ...(more > 0 ? [`${more} more`] : [])].join(', ');
}

export async function isLastOwner(
  { organization, userId }: { readonly organization: string; readonly userId: string },
  ports: Ports,
): Promise<boolean> {
  const members = await administerList(personList, { organization }, ports);
  const owners = members.filter(({ role }) => role === 'owner');
  return owners.length === 1 && owners[0]?.id === userId;
}

async function preview(
  of: { readonly organization: string; readonly userId: string },
  isJson: boolean,
  ports: CommandPorts,
): Promise<void> {
  const { owned, ends } = await administer(personLeaving, of, ports);
  const rows = owned.map(({ kind, id, name, server, agent, lastUsedAt }) => {
    return { kind, id, name, server, agent, last_used_at: lastUsedAt };
  });
  printRows(rows, { json: isJson, empty: 'owns no keys, clients or agents', out: ports.out });
  if (isJson) return;
  const { applications, connections, invitations, invitationsTo, sessions, tokens, scimTokens } =
    ends;
  ports.tell(
    `ends: ${applications} applications, ${connections} connected accounts, ${invitations} invitations by them, ${invitationsTo} invitations to them, ${sessions} sessions, ${tokens} personal tokens, ${scimTokens} SCIM tokens`,
  );
}
