import { z } from 'zod';

import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { personalOperation } from './operation.ts';

export const registeredClientRevoke = personalOperation({
  name: 'registered-client.revoke',
  doc: 'Revoke a client that made itself known and belongs to no server; for the operator',
  input: z.strictObject({ clientId: fields.clientId }),
  output: z.object({ clientId: z.string(), revokedAt: fields.at }),
  target: ({ clientId }) => `client:${clientId}`,
  async run({ clientId }, { actor }, { clients, clock }) {
    // It may act for people of every organization, so none of them decides about it for the others.
    if (actor.type !== 'operator') {
      throw new AdministrationRefusal('forbidden', 'only the operator may do this');
    }
    const client = await clients.byId(clientId);
    if (!client || client.serverId !== undefined) throw notFound('client');
    if (!(await clients.revoke(clientId, clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the client was revoked before');
    }
    return { clientId, revokedAt: clock.now() };
  },
});
