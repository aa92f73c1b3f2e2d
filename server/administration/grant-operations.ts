import { z } from 'zod';

import { allScopes } from '#credentials/scope';
import type { DirectoryGrant } from '#oauth/grant-directory';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { pageFields, pageOf, pageQuery, shownPage } from './paging.ts';

const inOrganization = { organization: fields.organization };
const path = '/organizations/{organization}/grants';

const shownGrant = z
  .object({
    id: z.string(),
    userId: z.string(),
    email: z.string(),
    clientId: z.string(),
    client: z.string(),
    isOpenClient: z.boolean().describe('Whether the application made itself known'),
    server: z.string().describe('`organization/server`'),
    scopes: z.array(z.enum(allScopes)),
    createdAt: fields.at,
    expiresAt: fields.at,
  })
  .meta({ id: 'Grant' });

export const grantList = organizationOperation({
  name: 'grant.list',
  doc: 'List what the people of an organization allowed applications to do',
  route: { method: 'GET', path },
  permission: 'grants.read',
  input: z.strictObject({
    ...inOrganization,
    userId: z.string().max(100).optional(),
    ...pageFields(['created_at'], { order: 'desc' }),
  }),
  output: pageOf(shownGrant),
  async run(input, { organization }, { grantDirectory, clock }) {
    const { text, limit, offset } = pageQuery(input);
    const query = { organizationId: organization.id, userId: input.userId, text, limit, offset };
    return shownPage(await grantDirectory.page({ ...query, now: clock.now() }), input, show);
  },
});

export const grantRead = organizationOperation({
  name: 'grant.read',
  doc: 'Read what a person allowed an application',
  route: { method: 'GET', path: `${path}/{grantId}` },
  permission: 'grants.read',
  input: z.strictObject({ ...inOrganization, grantId: z.string().max(100) }),
  output: shownGrant,
  async run({ grantId }, { organization: { id: organizationId } }, { grantDirectory, clock }) {
    const query = { organizationId, grantId, now: clock.now(), limit: 1, offset: 0 };
    const [grant] = (await grantDirectory.page(query)).items;
    if (!grant) throw notFound('grant');
    return show(grant);
  },
});

export const grantWithdraw = organizationOperation({
  name: 'grant.withdraw',
  doc: 'Take back what a person allowed an application; its tokens count no more',
  route: { method: 'DELETE', path: `${path}/{grantId}` },
  permission: 'grants.manage',
  input: z.strictObject({ ...inOrganization, grantId: z.string().max(100) }),
  output: z.object({ id: z.string() }),
  target: ({ grantId }) => grantId,
  async run({ grantId: id }, { organization }, { grants, consents, clock }) {
    const grant = await grants.byId(id);
    if (grant?.serverPath.split('/')[0] !== organization.name) throw notFound('grant');
    await consents.forget(grant);
    if (await grants.revoke(id, clock.now())) return { id };
    throw new AdministrationRefusal('conflict', 'it was taken back before');
  },
});

function show(grant: DirectoryGrant): z.output<typeof shownGrant> {
  return {
    id: grant.id,
    userId: grant.userId,
    email: grant.email,
    clientId: grant.clientId,
    client: grant.clientName,
    isOpenClient: grant.isOpenClient,
    server: grant.serverPath,
    scopes: [...grant.scopes],
    createdAt: grant.createdAt,
    expiresAt: grant.expiresAt,
  };
}
