import { z } from 'zod';

import { deleteConsents } from '#db/consents';
import { allowAssertedGrant } from '#db/assertion-grants';
import { findGrant, listGrants, revokeGrant, setGrantTools, type ListedGrant } from '#db/grants';
import type { Db } from '#db/transaction';
import { allScopes } from '#model/scopes';
import { partsOf } from '#model/slug';
import { conflict, notFound } from './refusal.ts';
import { fields, surfaces } from './fields.ts';
import { organizationOperation, type Operation, type WithDbAndClock } from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { command, listCommand, type Command } from './command.ts';
import { organizationArgument, textArgument } from './positionals.ts';
import {
  selectionCell,
  toolSelection,
  toolSelectionView,
  toSelectionView,
} from './tool-selection.ts';
import { viewOf } from './views.ts';

const inOrganization = { organization: fields.organization };
const path = '/organizations/{organization}/grants';
const ofGrant = { ...inOrganization, grantId: z.string().max(100) };
const target = ({ grantId }: { grantId: string }) => grantId;

const grantViewSchema = z
  .object({
    id: z.string(),
    userId: z.string(),
    email: z.string(),
    clientId: z.string(),
    client: z.string(),
    isOpenClient: z.boolean().describe('Whether the application registered itself'),
    assistant: z
      .string()
      .nullable()
      .describe('The assistant that the Latchkey proxy named; not verified'),
    device: z
      .object({ id: z.string(), name: z.string(), system: z.string() })
      .nullable()
      .describe('The device that the Latchkey proxy named; not verified'),
    server: z.string().describe('`organization/server`'),
    scopes: z.array(z.enum(allScopes)),
    tools: toolSelectionView,
    createdAt: fields.at,
    expiresAt: fields.at,
    isByAssertion: z
      .boolean()
      .describe('Whether an identity provider vouched for the person, who was not asked'),
    withdrawnAt: fields.maybeAt.describe(
      'When it was withdrawn: an identity provider cannot give this access again until it is allowed. Null while it is active',
    ),
  })
  .meta({ id: 'Grant' });

export const grantList = organizationOperation({
  name: 'grant.list',
  doc: 'List the consents that people in an organization gave to applications',
  route: { method: 'GET', path },
  permission: 'grants.read',
  input: z.strictObject({
    ...inOrganization,
    userId: z
      .string()
      .max(100)
      .optional()
      .register(surfaces, {
        option: {
          name: 'user',
          value: 'EMAIL',
          doc: 'only the consents of this person',
          isPerson: true,
        },
      }),
    ...pageFields(['created_at'], { order: 'desc' }),
  }),
  output: pageOf(grantViewSchema),
  async run(input, { organization }, { db, clock }) {
    const { text, limit, offset } = pageQuery(input);
    const query = { organizationId: organization.id, userId: input.userId, text, limit, offset };
    return toPageView(await listGrants(db, { ...query, now: clock.now() }), input, toGrantView);
  },
});

export const grantRead = organizationOperation({
  name: 'grant.read',
  doc: 'Read a person’s consent for an application',
  route: { method: 'GET', path: `${path}/{grantId}` },
  permission: 'grants.read',
  input: z.strictObject(ofGrant),
  output: grantViewSchema,
  run: ({ grantId }, { organization }, ports) => grantView(organization.id, grantId, ports),
});

/** @throws {AdministrationRefusal} `not_found` */
async function grantView(
  organizationId: string,
  grantId: string,
  { db, clock }: WithDbAndClock,
): Promise<z.output<typeof grantViewSchema>> {
  const query = { organizationId, grantId, now: clock.now(), limit: 1, offset: 0 };
  const [grant] = (await listGrants(db, query)).items;
  if (!grant) throw notFound('grant');
  return toGrantView(grant);
}

/** Finds a grant at a server of an organization. @throws {AdministrationRefusal} `not_found` */
async function ownGrant(organization: string, grantId: string, db: Db) {
  const grant = await findGrant(db, grantId);
  if (grant && partsOf(grant.serverPath).organization === organization) return grant;
  throw notFound('grant');
}

export const grantUpdate = organizationOperation({
  name: 'grant.update',
  doc: 'Change which tools an application can use for a person; takes effect on the next call',
  route: { method: 'PATCH', path: `${path}/{grantId}` },
  permission: 'grants.manage',
  input: z.strictObject({ ...ofGrant, tools: toolSelection }),
  output: grantViewSchema,
  target,
  async run({ grantId, tools }, { organization }, ports) {
    await grantView(organization.id, grantId, ports);
    if (!(await setGrantTools(ports.db, grantId, tools))) {
      throw conflict('the consent is withdrawn');
    }
    return grantView(organization.id, grantId, ports);
  },
});

export const grantWithdraw = organizationOperation({
  name: 'grant.withdraw',
  doc: 'Withdraw a person’s consent for an application; its tokens stop working immediately, and an identity provider cannot give them back',
  route: { method: 'DELETE', path: `${path}/{grantId}` },
  permission: 'grants.manage',
  input: z.strictObject(ofGrant),
  output: z.object({ id: z.string() }),
  target,
  async run({ grantId: id }, { organization }, { db, clock }) {
    await deleteConsents(db, await ownGrant(organization.name, id, db));
    if (await revokeGrant(db, id, clock.now())) return { id };
    throw conflict('the consent is already withdrawn');
  },
});

export const grantAllow = organizationOperation({
  name: 'grant.allow',
  doc: 'Let an identity provider give an application withdrawn access again',
  route: { method: 'POST', path: `${path}/{grantId}/allow` },
  permission: 'grants.manage',
  input: z.strictObject(ofGrant),
  output: z.object({ id: z.string() }),
  target,
  async run({ grantId: id }, { organization }, { db }) {
    await ownGrant(organization.name, id, db);
    if (await allowAssertedGrant(db, id)) return { id };
    throw conflict('no identity provider gave this access');
  },
});

function toGrantView(grant: ListedGrant): z.output<typeof grantViewSchema> {
  return viewOf(grantViewSchema, {
    ...grant,
    client: grant.clientName,
    server: grant.serverPath,
    tools: toSelectionView(grant.tools),
    isByAssertion: grant.isByAssertion ?? false,
    withdrawnAt: grant.revokedAt,
  });
}

export const grantOperations: readonly Operation[] = [
  grantList,
  grantRead,
  grantUpdate,
  grantWithdraw,
  grantAllow,
];

/** In commands, a grant is called a consent. */
export const grantCommands: readonly Command[] = [
  listCommand(grantList, {
    words: 'consent list',
    positionals: [organizationArgument],
    doc: 'list the consents that people in an organization gave to applications',
    prints: [
      'id',
      { user: 'email' },
      'client',
      'clientId',
      'server',
      'scopes',
      { tools: selectionCell },
      'createdAt',
      'expiresAt',
      'withdrawnAt',
    ],
    empty: 'no active consents',
  }),
  command(grantUpdate, {
    words: 'consent limit',
    positionals: [organizationArgument, textArgument('ID', 'grantId')],
    doc: 'change which tools an application can use for a person; takes effect on the next call',
    prints: ['id', { user: 'email' }, 'client', 'server', { tools: selectionCell }],
  }),
  command(grantWithdraw, {
    words: 'consent withdraw',
    positionals: [organizationArgument, textArgument('ID', 'grantId')],
    doc: 'withdraw a person’s consent for an application immediately',
    prints: ['id', { revoked_at: (_, { now }) => now }],
  }),
  command(grantAllow, {
    words: 'consent allow',
    positionals: [organizationArgument, textArgument('ID', 'grantId')],
    doc: 'let an identity provider give an application withdrawn access again',
    prints: ['id', { allowed_at: (_, { now }) => now }],
  }),
];
