import { z } from 'zod';

import { accountPath } from '#upstream-access/account-path';
import type { AdministrationPorts } from './administration-ports.ts';
import { ownServer } from './shown-server.ts';

/** How an upstream can be asked: with nothing, with a token for all, with each person's own. */
export const accessKinds = ['none', 'client_credentials', 'authorization_code'] as const;

/** How an upstream is asked, as every surface shows it. */
export const shownAccess = z
  .object({
    server: z.string(),
    kind: z
      .enum(accessKinds)
      .describe('`authorization_code`: each person by an account of their own'),
    issuer: z.string().nullable(),
    clientId: z.string().nullable(),
    hasClientSecret: z.boolean(),
    scopes: z.array(z.string()),
    resource: z.string().nullable().describe('What tokens are asked for. RFC 8707'),
    omitsResource: z.boolean().describe('Whether tokens are asked for without saying for what'),
    redirectPath: z.string().describe('The path of the redirect URI to register there'),
    connections: z.int().describe('How many people have connected an account'),
    tellsCallers: z.boolean().describe('Whether calls carry a signed assertion of who calls'),
  })
  .meta({ id: 'UpstreamAccess' });

/** `null` for what the upstream or its authorization server has none of. */
export type ShownAccess = z.output<typeof shownAccess>;

/** How the upstream of a server of this organization is asked. @throws {AdministrationRefusal} `not_found` */
export async function showAccess(
  organization: string,
  name: string,
  ports: Pick<
    AdministrationPorts,
    'organizations' | 'upstreamAccesses' | 'upstreamConnectionDirectory'
  >,
): Promise<ShownAccess> {
  const { upstream } = await ownServer(organization, name, ports);
  const { accessId, tellsCallers } =
    upstream.kind === 'http' ? upstream : { accessId: undefined, tellsCallers: undefined };
  const access = accessId === undefined ? undefined : await ports.upstreamAccesses.byId(accessId);
  const people = access ? await ports.upstreamConnectionDirectory.list(access.id) : [];
  return {
    server: name,
    kind: access?.kind ?? 'none',
    issuer: access?.metadata.issuer ?? null,
    clientId: access?.clientId ?? null,
    hasClientSecret: access?.sealedClientSecret !== undefined,
    scopes: [...(access?.scopes ?? [])],
    resource: access?.resource ?? null,
    omitsResource: access !== undefined && access.resource === undefined,
    redirectPath: `${accountPath({ organization, name })}/callback`,
    connections: people.length,
    tellsCallers: tellsCallers === true,
  };
}
