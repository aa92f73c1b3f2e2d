import { z } from 'zod';

import { AdministrationRefusal } from './administration-refusal.ts';
import { fields, words } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { ownMember } from './shown-person.ts';

const path = '/organizations/{organization}/settings';
const settings = {
  secondFactorRequired: z.boolean().describe('Whether everybody needs a second factor here'),
  openClientsAllowed: z
    .boolean()
    .describe(
      'Whether applications that described or registered themselves have access, where members allow it',
    ),
};
const shownSettings = z.object(settings).meta({ id: 'OrganizationSettings' });

export const settingsRead = organizationOperation({
  name: 'organization.settings',
  doc: 'Read what an organization asks of its people and lets them do',
  route: { method: 'GET', path },
  permission: 'organization.read',
  input: z.strictObject({ organization: fields.organization }),
  output: shownSettings,
  run: async (_input, { organization }, ports) => now(organization.name, ports.settings),
});

export const settingsUpdate = organizationOperation({
  name: 'organization.change-settings',
  doc: 'Change what an organization asks of its people and lets them do',
  route: { method: 'PATCH', path },
  permission: 'organization.manage',
  input: z.strictObject({
    organization: fields.organization,
    secondFactorRequired: settings.secondFactorRequired.optional(),
    openClientsAllowed: settings.openClientsAllowed.optional(),
    title: words(200).min(1).optional().describe('What people call the organization, besides'),
  }),
  output: shownSettings,
  target: ({ organization, secondFactorRequired, openClientsAllowed, title }) =>
    `organization:${organization} ${JSON.stringify({ secondFactorRequired, openClientsAllowed, title })}`,
  async run(input, { organization, actor }, ports) {
    const { secondFactorRequired, openClientsAllowed, title } = input;
    if (secondFactorRequired && actor.type === 'person') {
      const { hasSecondFactor } = await ownMember(organization.id, actor.userId, ports);
      if (!hasSecondFactor) {
        const why = 'you have no second factor yourself, and could not come back: set one up first';
        throw new AdministrationRefusal('conflict', why);
      }
    }
    if (title !== undefined) await ports.organizationDirectory.entitle(organization.id, title);
    await ports.settings.update(organization.id, {
      ...(secondFactorRequired !== undefined && { secondFactorRequired }),
      ...(openClientsAllowed !== undefined && { openClientsAllowed }),
    });
    return now(organization.name, ports.settings);
  },
});

async function now(
  organization: string,
  kept: { of(name: string): Promise<z.output<typeof shownSettings> | undefined> },
) {
  const found = await kept.of(organization);
  if (!found) throw new Error(`the organization ${organization} was removed meanwhile`);
  return { ...found };
}
