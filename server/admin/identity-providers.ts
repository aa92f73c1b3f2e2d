import { z } from 'zod';

import { listGroups } from '#db/groups';
import {
  deleteProvider,
  insertProvider,
  listProviders,
  updateProvider,
  type ProviderChange,
  type ProviderRecord,
} from '#db/identity-providers';
import { countLinkedMembers } from '#db/member-identities';
import { isForSignIn } from '#accounts/organization-providers';
import type { Organization } from '#db/organizations';
import { deleteChecks, renewChecks, summarizeChecks } from '#db/provider-checks';
import { isWorkloadIssuer } from '#db/trust-rules';
import { findServerNames } from '#db/vouching-providers';
import { endSessionsThrough } from '#db/sessions';
import { findSettings } from '#db/settings';
import type { EpochSeconds } from '#model/clock';
import { isSharedIssuer } from '#model/issuers';
import { checkAgainModes, usualChecking } from '#model/provider-checks';
import { randomBase62 } from '#secrets/secrets';
import { fields, optional, orDefault, surfaces } from './fields.ts';
import {
  nameField,
  clientIdField,
  secretField,
  scopesField,
  groupsClaimField,
  emailTrustedField,
  twoFactorsField,
  joiningRoleField,
  joiningGroupsField,
  roleGroupsField,
  checkAgainField,
  sessionCheckField,
  grantCheckField,
} from './identity-provider-fields.ts';
import {
  type Actor,
  type AdministrationPorts,
  organizationOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { unknownGroup } from './groups.ts';
import { checkRecent } from './people.ts';
import { conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostProviders = 5;

/** The view of an identity provider: on pages, in the API and in commands. Its secret is never shown. */
export const providerViewSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    issuer: z.string(),
    clientId: z.string(),
    redirectUri: z
      .string()
      .nullable()
      .describe('What to register at the provider; null in a command that does not know the URL'),
    scopes: z.array(z.string()),
    groupsClaim: z.string(),
    emailTrusted: z.boolean(),
    joiningRole: z.enum(['nobody', 'viewer', 'member', 'admin']),
    joiningGroups: z.array(z.string()).describe('The ids of groups'),
    roleGroups: z.array(z.string()),
    countsAsTwoFactors: z.boolean(),
    logoutUri: z
      .string()
      .nullable()
      .describe(
        'Where the provider can announce logouts; null in a command that does not know the URL',
      ),
    announcedAt: fields.maybeAt.describe('When it last announced a logout'),
    checkAgain: z.enum(checkAgainModes),
    sessionCheckMinutes: z.int(),
    grantCheckHours: z.int(),
    checkedPeople: z.int().describe('How many people can be checked again at the provider'),
    failingPeople: z
      .int()
      .describe('How many of them it did not answer for when they were checked'),
    failingSince: fields.maybeAt,
    failure: z.string().nullable().describe('What is wrong, such as `unreachable`'),
    assertionsAllowed: z
      .boolean()
      .describe('Whether it may vouch for members to applications (identity assertions)'),
    assertionClients: z.array(z.string()).describe('The ids of the clients that it may vouch to'),
    assertionServers: z.array(z.string()).describe('The names of the servers where it may vouch'),
    nativeClientId: z
      .string()
      .nullable()
      .describe('The client of Latchkey’s proxy there, of which members are told'),
    keysUrl: z
      .string()
      .nullable()
      .describe('Where its keys are, if not where its configuration says'),
    members: z.int().describe('How many people are linked'),
    status: z.enum(['untested', 'tested', 'disabled']),
    testedAt: fields.maybeAt.describe('The last successful test by an owner'),
    createdAt: fields.at,
  })
  .meta({ id: 'IdentityProvider' });

export type ProviderView = z.output<typeof providerViewSchema>;

export async function toProviderView(
  provider: ProviderRecord,
  { db, providerSetup }: Pick<AdministrationPorts, 'db' | 'providerSetup'>,
): Promise<ProviderView> {
  const counts = await countLinkedMembers(db, provider.organizationId);
  const checks = await summarizeChecks(db, provider.id);
  const { tested, disabledAt } = provider;
  const enabled = tested ? 'tested' : 'untested';
  return viewOf(providerViewSchema, {
    ...provider,
    redirectUri: providerSetup.redirectUriOf(provider.id),
    joiningRole: provider.joiningRole ?? 'nobody',
    logoutUri: providerSetup.logoutUriOf(provider.id),
    checkedPeople: checks.people,
    failingPeople: checks.failing,
    failingSince: checks.failingSince,
    failure: checks.failure,
    assertionServers: await findServerNames(db, provider.organizationId, provider.assertionServers),
    members: counts.get(provider.id) ?? 0,
    status: disabledAt === undefined ? enabled : 'disabled',
    testedAt: tested?.at,
  });
}

/** Finds a provider of an organization. @throws {AdministrationRefusal} `not_found` */
export async function ownProvider(
  { id }: Pick<Organization, 'id'>,
  providerId: string,
  { db }: WithDb,
): Promise<ProviderRecord> {
  const found = (await listProviders(db, id)).find((provider) => provider.id === providerId);
  if (!found) throw notFound('identity provider');
  return found;
}

const inOrganization = { organization: fields.organization };
const listPath = '/organizations/{organization}/identity-providers';
export const providerPath = `${listPath}/{providerId}`;
/** The input fields that name a provider, and its path in the API. */
export const ofProvider = { ...inOrganization, providerId: z.string().max(100) };
export const targetOfProvider = ({ providerId }: { providerId: string }) =>
  `provider:${providerId}`;
export const toRead = 'provider.read';
export const toManage = 'provider.manage';
export const providerList = organizationOperation({
  name: 'provider.list',
  doc: 'List the identity providers of an organization',
  route: { method: 'GET', path: listPath },
  permission: toRead,
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(providerViewSchema) }),
  async run(_input, { organization }, ports) {
    const items: ProviderView[] = [];
    for (const provider of await listProviders(ports.db, organization.id)) {
      items.push(await toProviderView(provider, ports));
    }
    return { items };
  },
});

export const providerRead = organizationOperation({
  name: 'provider.read',
  doc: 'Read an identity provider of an organization',
  route: { method: 'GET', path: providerPath },
  permission: toRead,
  input: z.strictObject(ofProvider),
  output: providerViewSchema,
  run: async ({ providerId }, { organization }, ports) =>
    toProviderView(await ownProvider(organization, providerId, ports), ports),
});

export const providerCreate = organizationOperation({
  name: 'provider.create',
  doc: 'Add an identity provider; test it on its page before members use it',
  route: { method: 'POST', path: listPath, made: `${listPath}/{id}` },
  permission: toManage,
  input: z.strictObject({
    ...inOrganization,
    name: nameField,
    issuer: z
      .string()
      .max(500)
      .describe('The issuer URL; it cannot be changed later')
      .register(surfaces, {
        option: { value: 'URL', doc: 'the issuer URL of the provider' },
        control: {
          kind: 'text',
          type: 'url',
          label: 'Issuer',
          subject: 'The issuer',
          help: 'The URL from the provider’s documentation, exactly. It cannot be changed later.',
          attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
    clientId: optional(clientIdField),
    clientSecret: optional(secretField),
    scopes: orDefault(scopesField, []),
    groupsClaim: orDefault(groupsClaimField, 'groups'),
    emailTrusted: orDefault(emailTrustedField, false),
    countsAsTwoFactors: orDefault(twoFactorsField, false),
    joiningRole: orDefault(joiningRoleField, 'nobody'),
    joiningGroups: orDefault(joiningGroupsField, []),
    roleGroups: orDefault(roleGroupsField, []),
    checkAgain: orDefault(checkAgainField, usualChecking.checkAgain),
    sessionCheckMinutes: orDefault(sessionCheckField, usualChecking.sessionCheckMinutes),
    grantCheckHours: orDefault(grantCheckField, usualChecking.grantCheckHours),
  }),
  output: providerViewSchema,
  target: (_, made) => made && targetOfProvider({ providerId: made.id }),
  async ahead({ issuer }, _, ports) {
    const problem = await ports.providerSetup.problemOf(issuer);
    if (problem !== undefined) throw invalidField('issuer', problem);
    return {};
  },
  async run(input, { organization, actor }, ports) {
    checkDeliberate(actor, ports.clock.now());
    await checkTrust(input.issuer, input, organization, ports);
    if (await isWorkloadIssuer(ports.db, organization.id, input.issuer)) {
      throw invalidField('issuer', 'is the issuer of workloads of this organization');
    }
    const { organization: _, clientId = '', clientSecret = '', joiningRole, ...given } = input;
    if (clientId === '' && clientSecret !== '') throw invalidField('clientId', 'is missing');
    if (clientId !== '' && clientSecret === '') throw invalidField('clientSecret', 'is missing');
    const id = `idp_${randomBase62(16)}`;
    const made = {
      ...given,
      id,
      organizationId: organization.id,
      clientId,
      sealedSecret: clientSecret && ports.providerSetup.sealSecret(id, clientSecret),
      joiningRole: joiningRole === 'nobody' ? undefined : joiningRole,
      createdAt: ports.clock.now(),
    };
    switch (await insertProvider(ports.db, made, mostProviders)) {
      case 'taken':
        throw invalidField('issuer', 'is already the issuer of a provider of this organization');
      case 'full':
        throw conflict(`there are already ${mostProviders} providers`);
      case 'done':
        return toProviderView(await ownProvider(organization, id, ports), ports);
    }
  },
});

export const providerUpdate = organizationOperation({
  name: 'provider.update',
  doc: 'Change an identity provider; omitted fields keep their value, and another client needs a new test',
  route: { method: 'PATCH', path: providerPath },
  permission: toManage,
  input: z.strictObject({
    ...ofProvider,
    name: optional(nameField),
    clientId: optional(clientIdField),
    clientSecret: optional(secretField),
    scopes: optional(scopesField),
    groupsClaim: optional(groupsClaimField),
    emailTrusted: optional(emailTrustedField),
    countsAsTwoFactors: optional(twoFactorsField),
    joiningRole: optional(joiningRoleField),
    joiningGroups: optional(joiningGroupsField),
    roleGroups: optional(roleGroupsField),
    checkAgain: optional(checkAgainField),
    sessionCheckMinutes: optional(sessionCheckField),
    grantCheckHours: optional(grantCheckField),
  }),
  output: providerViewSchema,
  target: targetOfProvider,
  async run(input, { organization, actor }, ports) {
    const { organization: _, providerId, clientSecret, joiningRole, ...given } = input;
    const { id, issuer, clientId } = await ownProvider(organization, providerId, ports);
    checkDeliberate(actor, ports.clock.now());
    await checkTrust(issuer, input, organization, ports);
    const isSameClient = given.clientId === clientId;
    const change: ProviderChange = {
      ...given,
      ...(isSameClient && { clientId: undefined }),
      ...(clientSecret !== undefined && {
        sealedSecret: ports.providerSetup.sealSecret(id, clientSecret),
      }),
      ...(joiningRole && { joiningRole: joiningRole === 'nobody' ? undefined : joiningRole }),
    };
    await updateProvider(ports.db, organization.id, id, change);
    // A new client cannot use the refresh tokens of the previous one.
    const isUseless = change.clientId !== undefined || change.checkAgain === 'never';
    await (isUseless ? deleteChecks : renewChecks)(ports.db, id);
    return toProviderView(await ownProvider(organization, id, ports), ports);
  },
});

/**
 * A person who changes a provider decides who can sign in as whom, so it must not be possible in an unattended browser. A personal token
 * counts as a recent sign-in if it was created with two factors.
 *
 * @throws {AdministrationRefusal} `proof_old`
 */
export function checkDeliberate(actor: Actor, now: EpochSeconds): void {
  const isToken = actor.type === 'person' && actor.credential.type === 'token';
  if (!isToken || actor.factors === 1) checkRecent(actor, now);
}

/** @throws {AdministrationRefusal} `invalid` if a shared issuer is to be trusted, or a group does not exist */
async function checkTrust(
  issuer: string,
  {
    emailTrusted,
    joiningGroups = [],
  }: { emailTrusted?: boolean | undefined; joiningGroups?: readonly string[] | undefined },
  { id }: Organization,
  { db }: WithDb,
): Promise<void> {
  if (emailTrusted && isSharedIssuer(new URL(issuer))) {
    const why = 'cannot be set for an issuer where people of other organizations sign in too';
    throw invalidField('emailTrusted', why);
  }
  const known = new Set((await listGroups(db, id)).map((group) => group.id));
  if (!joiningGroups.every((group) => known.has(group))) throw unknownGroup('joiningGroups');
}

export const providerCheck = organizationOperation({
  name: 'provider.check',
  doc: 'Read the configuration and the keys of an identity provider now; no one signs in',
  route: { method: 'POST', path: `${providerPath}/check` },
  permission: toManage,
  input: z.strictObject(ofProvider),
  output: z
    .object({
      isReady: z.boolean(),
      fault: z.string().nullable().describe('What is wrong, such as `unreachable`'),
      detail: z.string().nullable(),
    })
    .meta({ id: 'IdentityProviderCheck' }),
  target: targetOfProvider,
  async ahead({ providerId }, { organization }, ports) {
    const { providerSetup } = ports;
    const provider = await ownProvider(organization, providerId, ports);
    if (!isForSignIn(provider)) {
      throw conflict('the provider has no client: people cannot sign in through it');
    }
    const client = providerSetup.clientOf(provider);
    const checked = await client.check();
    return {
      providerSetup: {
        ...providerSetup,
        clientOf: () => ({ ...client, check: async () => checked }),
      },
    };
  },
  async run({ providerId }, { organization }, ports) {
    const provider = await ownProvider(organization, providerId, ports);
    const checked = await ports.providerSetup.clientOf(provider).check();
    if (checked.outcome === 'ready') return { isReady: true, fault: null, detail: null };
    return { isReady: false, fault: checked.fault.code, detail: checked.fault.detail };
  },
});

export const providerDisable = organizationOperation({
  name: 'provider.disable',
  doc: 'Disable an identity provider; its sessions end, and the groups that it reported do not count',
  route: { method: 'POST', path: `${providerPath}/disable` },
  permission: toManage,
  input: z.strictObject(ofProvider),
  output: providerViewSchema,
  target: targetOfProvider,
  async run({ providerId }, { organization }, ports) {
    const { id, disabledAt } = await ownProvider(organization, providerId, ports);
    await checkNotNeeded(id, organization, ports);
    if (disabledAt === undefined) {
      await updateProvider(ports.db, organization.id, id, { disabledAt: ports.clock.now() });
      await endSessionsThrough(ports.db, id);
    }
    return toProviderView(await ownProvider(organization, id, ports), ports);
  },
});

export const providerEnable = organizationOperation({
  name: 'provider.enable',
  doc: 'Enable an identity provider',
  route: { method: 'POST', path: `${providerPath}/enable` },
  permission: toManage,
  input: z.strictObject(ofProvider),
  output: providerViewSchema,
  target: targetOfProvider,
  async run({ providerId }, { organization, actor }, ports) {
    const { id } = await ownProvider(organization, providerId, ports);
    checkDeliberate(actor, ports.clock.now());
    await updateProvider(ports.db, organization.id, id, { disabledAt: undefined });
    return toProviderView(await ownProvider(organization, id, ports), ports);
  },
});

export const providerRemove = organizationOperation({
  name: 'provider.remove',
  doc: 'Remove an identity provider with its links and sessions; this cannot be undone',
  route: { method: 'DELETE', path: providerPath },
  permission: toManage,
  input: z.strictObject(ofProvider),
  output: z.object({ id: z.string() }),
  target: targetOfProvider,
  async run({ providerId }, { organization, actor }, ports) {
    const { id } = await ownProvider(organization, providerId, ports);
    checkDeliberate(actor, ports.clock.now());
    await checkNotNeeded(id, organization, ports);
    await deleteProvider(ports.db, organization.id, id);
    return { id };
  },
});

/** @throws {AdministrationRefusal} `conflict` if single sign-on is required and no other provider is usable */
async function checkNotNeeded(
  id: string,
  organization: Organization,
  { db }: WithDb,
): Promise<void> {
  const rules = await findSettings(db, organization.name);
  if (!rules?.singleSignOnRequired) return;
  const others = (await listProviders(db, organization.id)).filter((one) => one.id !== id);
  if (others.some(isUsable)) return;
  const why =
    'members would be locked out, because single sign-on is required: turn that off in the settings first';
  throw conflict(why);
}

/** Whether single sign-on can be required because of this provider: it is enabled, and an owner has tested it. */
export function isUsable({ tested, disabledAt }: ProviderRecord): boolean {
  return tested !== undefined && disabledAt === undefined;
}

export const providerOperations: readonly Operation[] = [
  providerList,
  providerCreate,
  providerRead,
  providerUpdate,
  providerCheck,
  providerDisable,
  providerEnable,
  providerRemove,
];
