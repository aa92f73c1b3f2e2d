import { z } from 'zod';

import { randomBase62 } from '#credentials/secret-format';
import type { Organization } from '#organizations/organization-store';
import { roles, type Role } from '#people/role';
import { AdministrationRefusal } from './administration-refusal.ts';
import { fields, words } from './fields.ts';
import { organizationOperation, personalOperation } from './operation.ts';
import { pageFields, pageOf, pageQuery, shownPage } from './paging.ts';

const shownOrganization = z
  .object({
    id: z.string(),
    name: z.string(),
    title: z.string().describe('What people call it'),
    role: z.enum(roles).describe('What the asker is there'),
    createdAt: fields.at,
  })
  .meta({ id: 'Organization' });

function show({ id, name, title, createdAt }: Organization, role: Role) {
  return { id, name, title: title ?? name, role, createdAt };
}

export const organizationList = personalOperation({
  name: 'organization.list',
  doc: 'List the organizations that the asker belongs to',
  route: { method: 'GET', path: '/organizations' },
  input: z.strictObject({ ...pageFields(['name']) }),
  output: pageOf(shownOrganization),
  async run(input, { actor }, { organizationDirectory, users }) {
    const query = pageQuery(input);
    if (actor.type === 'operator') {
      const page = await organizationDirectory.page(query);
      return shownPage(page, input, (organization) => show(organization, 'owner'));
    }
    const memberships = await users.memberships(actor.userId);
    const roleOf = new Map(memberships.map(({ organization, role }) => [organization, role]));
    const page = await organizationDirectory.page({ ...query, names: [...roleOf.keys()] });
    return shownPage(page, input, (organization) =>
      show(organization, roleOf.get(organization.name) ?? 'viewer'),
    );
  },
});

export const organizationCreate = personalOperation({
  name: 'organization.create',
  doc: 'Make an organization; a person must own one already, and owns the new one too',
  route: { method: 'POST', path: '/organizations', made: '/organizations/{name}' },
  input: z.strictObject({ name: fields.slug, title: words(200).optional() }),
  output: shownOrganization,
  target: ({ name }) => `organization:${name}`,
  async run({ name, title }, { actor }, { organizations, users, clock }) {
    const user = actor.type === 'person' ? await users.byId(actor.userId) : undefined;
    if (actor.type === 'person') {
      const memberships = await users.memberships(actor.userId);
      if (!user || !memberships.some(({ role }) => role === 'owner')) {
        const why = 'only who owns an organization may make another one';
        throw new AdministrationRefusal('forbidden', why);
      }
    }
    const id = `org_${randomBase62(16)}`;
    const made = { id, name, ...(title && { title }), createdAt: clock.now() };
    if (!(await organizations.add(made))) {
      throw new AdministrationRefusal('conflict', `there is an organization ${name} already`);
    }
    if (user) await users.add(user, { organizationId: id, role: 'owner' });
    return show(made, 'owner');
  },
});

export const organizationRead = organizationOperation({
  name: 'organization.read',
  doc: 'Read an organization',
  route: { method: 'GET', path: '/organizations/{organization}' },
  permission: 'organization.read',
  input: z.strictObject({ organization: fields.organization }),
  output: shownOrganization,
  run: async (_input, { organization, role }) => show(organization, role),
});

export const organizationUpdate = organizationOperation({
  name: 'organization.update',
  doc: 'Change what people call an organization; its name stays, as every endpoint has it in its URL',
  route: { method: 'PATCH', path: '/organizations/{organization}' },
  permission: 'organization.manage',
  input: z.strictObject({ organization: fields.organization, title: words(200).min(1) }),
  output: shownOrganization,
  target: ({ organization }) => `organization:${organization}`,
  async run({ title }, { organization, role }, { organizationDirectory }) {
    await organizationDirectory.entitle(organization.id, title);
    return show({ ...organization, title }, role);
  },
});
