import { z } from 'zod';

import { listLinkedMembers, unlinkMember } from '#db/member-identities';
import { fields } from './fields.ts';
import {
  checkDeliberate,
  ofProvider,
  ownProvider,
  providerPath,
  targetOfProvider,
  toManage,
  toRead,
} from './identity-providers.ts';
import { organizationOperation, type Operation } from './operation.ts';
import { notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostShown = 500;

const memberViewSchema = z
  .object({
    userId: z.string(),
    email: z.string(),
    subject: z.string().describe('Their account at the provider'),
    linkedAt: fields.at,
    usedAt: fields.at,
  })
  .meta({ id: 'LinkedMember' });

export const providerMembers = organizationOperation({
  name: 'provider.members',
  doc: `List the people who are linked at an identity provider, at most ${mostShown}`,
  route: { method: 'GET', path: `${providerPath}/members` },
  permission: toRead,
  input: z.strictObject(ofProvider),
  output: z.object({ items: z.array(memberViewSchema) }),
  async run({ providerId }, { organization }, ports) {
    const { id } = await ownProvider(organization, providerId, ports);
    const found = await listLinkedMembers(ports.db, id, mostShown);
    return { items: found.map((member) => viewOf(memberViewSchema, member)) };
  },
});

export const providerUnlink = organizationOperation({
  name: 'provider.unlink',
  doc: 'Unlink a person from an identity provider and end their sessions through it; the next sign-in links by address again',
  route: { method: 'DELETE', path: `${providerPath}/members/{userId}` },
  permission: toManage,
  input: z.strictObject({ ...ofProvider, userId: z.string().max(100) }),
  output: z.object({ userId: z.string() }),
  target: ({ providerId, userId }) => `${targetOfProvider({ providerId })} user:${userId}`,
  async run({ providerId, userId }, { organization, actor }, ports) {
    const { id } = await ownProvider(organization, providerId, ports);
    checkDeliberate(actor, ports.clock.now());
    if (!(await unlinkMember(ports.db, organization.id, id, userId))) throw notFound('link');
    return { userId };
  },
});

export const linkedMemberOperations: readonly Operation[] = [providerMembers, providerUnlink];
