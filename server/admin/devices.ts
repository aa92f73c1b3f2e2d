import { z } from 'zod';

import { listDevices, signOutDevice, type Device } from '#db/devices';
import { listCommand, command, type Command } from './command.ts';
import { fields } from './fields.ts';
import { organizationOperation, type Operation } from './operation.ts';
import { memberArgument, ofPerson, ownMember } from './people.ts';
import { textArgument } from './positionals.ts';
import { notFound } from './refusal.ts';

const path = '/organizations/{organization}/people/{userId}/devices';

const deviceViewSchema = z
  .object({
    id: z.string(),
    name: z.string().describe('What the Latchkey proxy there calls itself; not verified'),
    system: z.string().describe('The operating system that it names; may be empty'),
    applications: z.array(
      z.object({
        grantId: z.string(),
        client: z.string(),
        assistant: z.string().nullable(),
        server: z.string().describe('`organization/server`'),
      }),
    ),
    signedInAt: fields.at,
    lastUsedAt: fields.maybeAt,
  })
  .meta({ id: 'Device' });

/** Converts a device to its view. */
export function toDeviceView(device: Device): z.output<typeof deviceViewSchema> {
  const { id, name, system, since, lastUsedAt, grants } = device;
  return {
    id,
    name,
    system,
    applications: grants.map((grant) => ({
      grantId: grant.id,
      client: grant.clientName,
      assistant: grant.assistant ?? null,
      server: grant.serverPath,
    })),
    signedInAt: since,
    lastUsedAt: lastUsedAt ?? null,
  };
}

export const deviceList = organizationOperation({
  name: 'device.list',
  doc: 'List the devices on which a person uses servers of an organization, the last used first',
  route: { method: 'GET', path },
  permission: 'grants.read',
  input: z.strictObject(ofPerson),
  output: z.object({ items: z.array(deviceViewSchema) }),
  target: ({ userId }) => `user:${userId}`,
  async run({ userId }, { organization }, { db, clock }) {
    await ownMember(organization.id, userId, { db });
    const owner = { userId, within: [organization.name] };
    return { items: (await listDevices(db, owner, clock.now())).map(toDeviceView) };
  },
});

export const deviceSignOut = organizationOperation({
  name: 'device.sign-out',
  doc: 'Sign out a device of a person: what applications there may use in the organization ends immediately',
  route: { method: 'DELETE', path: `${path}/{deviceId}` },
  permission: 'grants.manage',
  input: z.strictObject({ ...ofPerson, deviceId: z.string().max(100) }),
  output: z.object({ id: z.string(), ended: z.int().describe('How many grants ended') }),
  target: ({ userId, deviceId }) => `user:${userId} ${deviceId}`,
  async run({ userId, deviceId: id }, { organization }, { db, clock }) {
    const owner = { userId, within: [organization.name] };
    const ended = (await signOutDevice(db, id, owner, clock.now())).get(organization.name);
    if (ended === undefined) throw notFound('device');
    return { id, ended };
  },
});

export const deviceOperations: readonly Operation[] = [deviceList, deviceSignOut];

export const deviceCommands: readonly Command[] = [
  listCommand(deviceList, {
    words: 'device list',
    positionals: [memberArgument],
    doc: 'list the devices on which a person uses servers, the last used first',
    prints: [
      'id',
      'name',
      'system',
      {
        applications: ({ applications }) => [
          ...new Set(applications.map(({ client, assistant }) => assistant ?? client)),
        ],
      },
      'lastUsedAt',
    ],
    empty: 'no devices',
  }),
  command(deviceSignOut, {
    words: 'device sign-out',
    positionals: [memberArgument, textArgument('ID', 'deviceId')],
    doc: 'sign out a device of a person immediately, for example a lost laptop',
    prints: ['id', 'ended'],
  }),
];
