import { z } from 'zod';

import { invalidField } from './administration-refusal.ts';
import { organizationOperation } from './operation.ts';
import { ofGroup } from './shown-group.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './shown-server.ts';

const shownRule = z
  .object({
    server: z.string(),
    groups: z.array(z.object({ id: z.string(), name: z.string() })),
  })
  .meta({ id: 'ServerGroups' });
const path = `${serverPath}/groups`;

export const serverGroupsRead = organizationOperation({
  name: 'server.groups',
  doc: 'Read which groups may use a server; none means every member',
  route: { method: 'GET', path },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: shownRule,
  async run({ server }, { organization }, ports) {
    const { id } = await ownServer(organization.name, server, ports);
    return { server, groups: await ports.serverGroups.of(id) };
  },
});

export const serverGroupsSet = organizationOperation({
  name: 'server.set-groups',
  doc: 'Keep a server to some groups, or open it to every member; whoever is outside loses it at once',
  route: { method: 'PATCH', path },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, groupIds: z.array(ofGroup.groupId).max(100) }),
  output: shownRule,
  target: serverTarget,
  async run({ server, groupIds }, { organization }, ports) {
    const { id } = await ownServer(organization.name, server, ports);
    const isSet = await ports.serverGroups.set(id, groupIds);
    if (!isSet) throw invalidField('groupIds', 'names a group that is not there');
    return { server, groups: await ports.serverGroups.of(id) };
  },
});
