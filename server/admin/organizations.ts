import { z } from 'zod';

import {
  insertOrganization,
  listOrganizations,
  setOrganizationTitle,
  type Organization,
} from '#db/organizations';
import { randomBase62 } from '#secrets/secrets';
import { callRetentionDays as retention } from '#model/calls';
import { roles, type Role } from '#model/roles';
import { hasOwnerWithSecondFactor, insertUser, findUser } from '#db/people';
import { listProviders } from '#db/identity-providers';
import { isUsable } from './identity-providers.ts';
import { conflict, forbidden } from './refusal.ts';
import {
  fields,
  surfaces,
  wholeNumber,
  words,
  yesOrNo,
  nameControl,
  slugAttributes,
} from './fields.ts';
import {
  enterableOrganizations,
  openMemberships,
  organizationOperation,
  personalOperation,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { countConnectedApps, findSettings, updateSettings } from '#db/settings';
import { ownMember } from './people.ts';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { administer, command, listCommand, type Command } from './command.ts';
import { checkSlug, namedOrganization, type Positional } from './positionals.ts';
import { printMade } from './print.ts';

const organizationViewSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    title: z.string().describe('The display name'),
    role: z.enum(roles).describe('The role of the caller there'),
    createdAt: fields.at,
  })
  .meta({ id: 'Organization' });

function toOrganizationView({ id, name, title, createdAt }: Organization, role: Role) {
  return { id, name, title: title ?? name, role, createdAt };
}

export const organizationList = personalOperation({
  name: 'organization.list',
  doc: 'List the organizations that the caller belongs to and may enter',
  route: { method: 'GET', path: '/organizations' },
  input: z.strictObject({ ...pageFields(['name']) }),
  output: pageOf(organizationViewSchema),
  async run(input, { actor }, { db }) {
    const query = pageQuery(input);
    if (actor.type === 'operator') {
      const page = await listOrganizations(db, query);
      return toPageView(page, input, (organization) => toOrganizationView(organization, 'owner'));
    }
    const roleOf = await enterableOrganizations(actor, { db });
    const page = await listOrganizations(db, { ...query, names: [...roleOf.keys()] });
    return toPageView(page, input, (organization) =>
      toOrganizationView(organization, roleOf.get(organization.name) ?? 'viewer'),
    );
  },
});

export const organizationCreate = personalOperation({
  name: 'organization.create',
  doc: 'Create an organization; a person must already own one, and owns the new one too',
  route: { method: 'POST', path: '/organizations', made: '/organizations/{name}' },
  input: z.strictObject({
    name: fields.slug.clone().register(surfaces, {
      control: nameControl(
        'Used in URLs; cannot be changed. Lower-case letters, digits and hyphens. Example: acme',
        slugAttributes,
      ),
    }),
    title: words(200)
      .optional()
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Title',
          subject: 'The title',
          help: 'The name that people see, in any script.',
          attributes: { maxlength: '200' },
        },
      }),
  }),
  output: organizationViewSchema,
  target: ({ name }) => `organization:${name}`,
  async run({ name, title }, { actor }, { db, clock }) {
    const user = actor.type === 'person' ? await findUser(db, actor.userId) : undefined;
    if (actor.type === 'person') {
      const memberships = await openMemberships(actor, { db });
      if (!user || !memberships.some(({ role }) => role === 'owner')) {
        throw forbidden('only the owner of an organization can create another one');
      }
    }
    const id = `org_${randomBase62(16)}`;
    const made = { id, name, ...(title && { title }), createdAt: clock.now() };
    if (!(await insertOrganization(db, made))) {
      throw conflict(`an organization ${name} already exists`);
    }
    if (user) await insertUser(db, user, { organizationId: id, role: 'owner' });
    return toOrganizationView(made, 'owner');
  },
});

export const organizationRead = organizationOperation({
  name: 'organization.read',
  doc: 'Read an organization',
  route: { method: 'GET', path: '/organizations/{organization}' },
  permission: 'organization.read',
  input: z.strictObject({ organization: fields.organization }),
  output: organizationViewSchema,
  run: async (_input, { organization, role }) => toOrganizationView(organization, role),
});

const organizationUpdate = organizationOperation({
  name: 'organization.update',
  doc: 'Change the title of an organization; its name cannot be changed, because every endpoint URL contains it',
  route: { method: 'PATCH', path: '/organizations/{organization}' },
  permission: 'organization.manage',
  input: z.strictObject({ organization: fields.organization, title: words(200).min(1) }),
  output: organizationViewSchema,
  target: ({ organization }) => `organization:${organization}`,
  async run({ title }, { organization, role }, { db }) {
    await setOrganizationTitle(db, organization.id, title);
    return toOrganizationView({ ...organization, title }, role);
  },
});

const path = '/organizations/{organization}/settings';
const settings = {
  secondFactorRequired: z.boolean().describe('Whether members need a second factor'),
  openClientsAllowed: z
    .boolean()
    .describe('Whether self-registered applications have access if members consent'),
  latchkeyProxyAllowed: z
    .boolean()
    .describe(
      'Whether Latchkey’s own proxy, or what claims to be it, has access if members consent',
    ),
  callRetentionDays: wholeNumber(retention.least, retention.most).describe(
    'How many days recorded calls are kept',
  ),
  singleSignOnRequired: z
    .boolean()
    .describe(
      'Whether members enter only through an identity provider of the organization; owners with two factors always enter',
    ),
  leaverResources: z
    .enum(['suspend', 'keep'])
    .describe('What happens to the keys, clients and agents that people who leave had created'),
  invitedScimGroups: z
    .boolean()
    .describe(
      'Whether groups of the directory count for members who entered their address themselves when they accepted an invitation',
    ),
};
const connectedSchema = z
  .object({
    people: z.int().describe('How many people'),
    apps: z.int().describe('How many different applications'),
    connections: z.int().describe('How many grants'),
  })
  .meta({ id: 'ConnectedApps' });
/** A rule that is on or off, as a box of the form. */
function ruleBox(setting: z.ZodBoolean, label: string, help: string) {
  const group = { name: 'rule', label: 'Rules' };
  return setting
    .optional()
    .register(surfaces, { control: { kind: 'checkbox', group, label, help } });
}

const settingsViewSchema = z
  .object({
    ...settings,
    connected: z
      .object({ selfRegistered: connectedSchema, latchkeyProxy: connectedSchema })
      .describe('Who uses such applications, and loses access if they are not allowed'),
  })
  .meta({ id: 'OrganizationSettings' });

export const settingsRead = organizationOperation({
  name: 'organization.settings',
  doc: 'Read the settings of an organization',
  route: { method: 'GET', path },
  permission: 'organization.settings',
  input: z.strictObject({ organization: fields.organization }),
  output: settingsViewSchema,
  run: async (_input, { organization }, ports) => settingsOf(organization, ports),
});

export const settingsUpdate = organizationOperation({
  name: 'organization.change-settings',
  doc: 'Change the settings of an organization',
  route: { method: 'PATCH', path },
  permission: 'organization.manage',
  input: z.strictObject({
    organization: fields.organization,
    secondFactorRequired: ruleBox(
      settings.secondFactorRequired,
      'Require a second factor',
      'People who sign in with only a password cannot open the pages of this organization or consent to applications. Applications keep the access that people granted before.',
    ),
    singleSignOnRequired: ruleBox(
      settings.singleSignOnRequired,
      'Require single sign-on',
      'Members can sign in to this organization only through one of its identity providers, and personal tokens work here only for owners. Owners with two factors can always sign in. An owner must test the provider first. Applications keep the access that people granted before.',
    ),
    invitedScimGroups: ruleBox(
      settings.invitedScimGroups,
      'Apply directory groups to invited members',
      'People enter their own e-mail address when they accept an invitation, so it may be a colleague’s. If this is off, the groups that your directory sends by SCIM apply to them once they have signed in through an identity provider of this organization.',
    ),
    openClientsAllowed: ruleBox(
      settings.openClientsAllowed,
      'Let members connect self-registered apps',
      'An app registers itself by dynamic registration or by a metadata document on the web. When you turn this off, such apps stop working immediately; Latchkey’s own proxy and clients that an administrator created go on. When you turn it on again, what members allowed is valid again, unless it was revoked or expired.',
    ),
    latchkeyProxyAllowed: ruleBox(
      settings.latchkeyProxyAllowed,
      'Let members connect Latchkey’s own proxy',
      'Assistants that were set up with the latchkey command or a bundle use it. Its client ID proves nothing: any program on a member’s computer can call itself Latchkey. When you turn this off, the proxy stops working immediately and says that it is suspended. When you turn it on again, it works as before, without signing in again.',
    ),
    leaverResources: settings.leaverResources.optional().register(surfaces, {
      control: {
        kind: 'radio',
        label: 'Keys, clients and agents of people who leave',
        subject: 'The choice',
        choices: [
          {
            value: 'suspend',
            text: 'Suspend',
            help: 'They stop working immediately, and are listed under Needs an owner. An administrator hands them over with one click.',
          },
          {
            value: 'keep',
            text: 'Keep',
            help: 'They go on working, although the person may know them, and are listed under Needs an owner.',
          },
        ],
      },
    }),
    callRetentionDays: settings.callRetentionDays.optional().register(surfaces, {
      control: {
        kind: 'text',
        label: 'Days to keep calls',
        subject: 'The number of days',
        help: `How long the calls on the Activity page are kept: ${retention.least} to ${retention.most} days. Older ones are deleted within an hour; this cannot be undone.`,
        optional: false,
        attributes: {
          inputmode: 'numeric',
          autocomplete: 'off',
          spellcheck: 'false',
          maxlength: '4',
        },
      },
    }),
    title: words(200)
      .min(1)
      .optional()
      .describe('The display name of the organization')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Title',
          subject: 'The title',
          help: 'The name that people see. The name in URLs does not change.',
          optional: false,
          attributes: { maxlength: '200', autocomplete: 'off' },
        },
      }),
  }),
  output: settingsViewSchema,
  target: ({ organization, ...change }) => `organization:${organization} ${JSON.stringify(change)}`,
  async run(input, { organization, actor }, ports) {
    const { organization: _, title, ...change } = input;
    if (change.singleSignOnRequired) await checkMayRequire(organization, ports);
    if (change.secondFactorRequired && actor.type === 'person') {
      const { hasSecondFactor } = await ownMember(organization.id, actor.userId, ports);
      if (!hasSecondFactor) {
        throw conflict('you have no second factor and would lock yourself out: set one up first');
      }
    }
    if (title !== undefined) await setOrganizationTitle(ports.db, organization.id, title);
    await updateSettings(ports.db, organization.id, change);
    return settingsOf(organization, ports);
  },
});

/**
 * Throws unless single sign-on can be required: members have a way in, and an owner has another one in case single sign-on breaks.
 *
 * @throws {AdministrationRefusal} `conflict`
 */
async function checkMayRequire({ id, name }: Organization, { db }: WithDb): Promise<void> {
  if ((await findSettings(db, name))?.singleSignOnRequired) return;
  if (!(await listProviders(db, id)).some(isUsable)) {
    throw conflict('no owner has tested an identity provider: test one on the page Sign-in first');
  }
  if (await hasOwnerWithSecondFactor(db, id)) return;
  const why =
    'no owner has a passkey or an authenticator app and could enter if the provider fails: set one up first';
  throw conflict(why);
}

async function settingsOf({ id, name }: Organization, { db, clock }: WithDbAndClock) {
  const found = await findSettings(db, name);
  if (!found) throw new Error(`the organization ${name} was removed in the meantime`);
  return { ...found, connected: await countConnectedApps(db, id, clock.now()) };
}

export const organizationOperations: readonly Operation[] = [
  organizationList,
  organizationCreate,
  organizationRead,
  organizationUpdate,
];

export const settingsOperations: readonly Operation[] = [settingsRead, settingsUpdate];

const newOrganization: Positional = {
  usage: 'ORG',
  read: (text) => ({ name: checkSlug(text, 'an organization') }),
};

const updateCommand: Command = {
  words: 'organization update',
  positionals: ['ORG'],
  options: [
    { name: 'title', value: 'TITLE', doc: 'the display name' },
    { name: 'second-factor', value: 'YES|NO', doc: 'whether members need a second factor' },
    {
      name: 'open-clients',
      value: 'YES|NO',
      doc: 'whether self-registered applications have access',
    },
    {
      name: 'latchkey-proxy',
      value: 'YES|NO',
      doc: "whether Latchkey's own proxy, or what claims to be it, has access",
    },
    { name: 'call-retention-days', value: 'DAYS', doc: 'how many days recorded calls are kept' },
    {
      name: 'single-sign-on',
      value: 'YES|NO',
      doc: 'whether members enter only through an identity provider; no lets them enter again if it fails',
    },
    {
      name: 'leaver-resources',
      value: 'suspend|keep',
      doc: 'what happens to keys, clients and agents of people who leave',
    },
    {
      name: 'invited-scim-groups',
      value: 'YES|NO',
      doc: 'whether groups of the directory count for members who were invited',
    },
    {
      name: 'yes',
      doc: 'change it; without this option, a change that stops applications only shows how many',
    },
    json,
  ],
  doc: 'change the title and the settings of an organization',
  async run(input, { out, ...ports }) {
    const { name } = await namedOrganization(input.positionals[0] ?? '', ports.stores);
    const place = { organization: name };
    const title = input.text('title');
    const change = {
      secondFactorRequired: maybeYes('second-factor', input.text('second-factor')),
      openClientsAllowed: maybeYes('open-clients', input.text('open-clients')),
      latchkeyProxyAllowed: maybeYes('latchkey-proxy', input.text('latchkey-proxy')),
      callRetentionDays: input.text('call-retention-days'),
      singleSignOnRequired: maybeYes('single-sign-on', input.text('single-sign-on')),
      leaverResources: input.text('leaver-resources'),
      invitedScimGroups: maybeYes('invited-scim-groups', input.text('invited-scim-groups')),
    };
    const before = await administer(settingsRead, place, ports);
    const stopped = stoppedBy(change, before);
    if (stopped.length > 0 && !input.flag('yes')) {
      const why = `nothing was changed: in ${name}, ${stopped.join(', and ')}`;
      throw new CommandError(why, 'to change it, repeat the command with --yes');
    }
    if (title !== undefined) await administer(organizationUpdate, { ...place, title }, ports);
    if (Object.values(change).some((value) => value !== undefined)) {
      await administer(settingsUpdate, { ...place, ...change }, ports);
    }
    const now = await administer(settingsRead, place, ports);
    const word = (holds: boolean) => (holds ? 'yes' : 'no');
    const facts = {
      name,
      ...(title !== undefined && { title }),
      second_factor: word(now.secondFactorRequired),
      open_clients: word(now.openClientsAllowed),
      latchkey_proxy: word(now.latchkeyProxyAllowed),
      call_retention_days: now.callRetentionDays,
      single_sign_on: word(now.singleSignOnRequired),
      leaver_resources: now.leaverResources,
      invited_scim_groups: word(now.invitedScimGroups),
    };
    printMade(facts, { json: input.flag('json'), out });
  },
};

/** Who loses access by a change of settings, one sentence for each setting that is turned off. */
export function stoppedBy(
  change: Readonly<Record<string, unknown>>,
  before: z.output<typeof settingsViewSchema>,
): string[] {
  const { selfRegistered, latchkeyProxy } = before.connected;
  const isTurnedOff = (rule: 'openClientsAllowed' | 'latchkeyProxyAllowed') =>
    before[rule] && change[rule] === false;
  return [
    isTurnedOff('openClientsAllowed') && selfRegistered.people > 0
      ? `${several(selfRegistered.people, 'person loses', 'people lose')} access through ${several(selfRegistered.apps, 'self-registered app', 'self-registered apps')}`
      : [],
    isTurnedOff('latchkeyProxyAllowed') && latchkeyProxy.people > 0
      ? `${several(latchkeyProxy.people, 'person loses', 'people lose')} access through Latchkey’s own proxy, which has ${several(latchkeyProxy.connections, 'connection', 'connections')}`
      : [],
  ].flat();
}

function several(count: number, one: string, more: string): string {
  return `${count} ${count === 1 ? one : more}`;
}

/** @throws {UsageError} */
function maybeYes(option: string, text: string | undefined): boolean | undefined {
  return text === undefined ? undefined : yesOrNo(text, option);
}

export const organizationCommands: readonly Command[] = [
  command(organizationCreate, {
    words: 'organization create',
    positionals: [newOrganization],
    doc: 'create an organization',
    prints: ['id', 'name'],
    conflict: () => 'choose another name; latchkey-server organization list shows those in use',
    hint: ({ name }) =>
      `it has no members yet: latchkey-server user create EMAIL --organization ${name} --role owner`,
  }),
  listCommand(organizationList, {
    words: 'organization list',
    doc: 'list organizations',
    prints: ['id', 'name', 'title', 'createdAt'],
    empty: 'no organizations yet: latchkey-server organization create ORG',
  }),
  updateCommand,
];
