import { z } from 'zod';

import { AdministrationRefusal } from './administration-refusal.ts';
import { answeredAhead, chosenAccess, onlyHttp } from './chosen-access.ts';
import { organizationOperation } from './operation.ts';
import { accessKinds, showAccess, shownAccess } from './shown-access.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './shown-server.ts';

const path = `${serverPath}/upstream-access`;
// RFC 6749 Appendix A.1, A.2, A.4
const visible = (most: number) =>
  z
    .string()
    .max(most)
    .regex(/^[\x20-\x7e]*$/, 'may hold printable ASCII alone');
const scope = z
  .string()
  .max(200)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'is not one word');

export const accessRead = organizationOperation({
  name: 'server.read-access',
  doc: 'Read what the MCP server behind an endpoint wants before it answers',
  route: { method: 'GET', path },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: shownAccess,
  run: async ({ server }, { organization }, ports) => showAccess(organization.name, server, ports),
});

export const accessSet = organizationOperation({
  name: 'server.set-access',
  doc: 'Say how the MCP server behind an endpoint is to be asked: with nothing, with a token for all, with each person’s own',
  route: { method: 'PATCH', path },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    kind: z.enum(accessKinds),
    issuer: z.string().max(2000).optional().describe('Found by itself unless given'),
    clientId: visible(500)
      .optional()
      .describe(
        'Stays unless given; for people’s accounts we introduce ourselves where there is none',
      ),
    clientSecret: visible(2000).optional().describe('Stays unless given'),
    scopes: z.array(scope).max(100).optional().describe('What the upstream asks for unless given'),
    omitsResource: z
      .boolean()
      .optional()
      .describe(
        'For an authorization server that refuses `resource`: other servers may take its tokens',
      ),
    tellsCallers: z.boolean().optional().describe('Stays unless given'),
  }),
  output: shownAccess,
  target: serverTarget,
  async ahead(input, { organization, actor }, ports) {
    const { kind } = input;
    const { upstreamSetup } = ports;
    const server = await ownServer(organization.name, input.server, ports);
    if (kind === 'none' || server.upstream.kind !== 'http') return { upstreamSetup };
    return { upstreamSetup: await answeredAhead({ ...input, kind }, { server, actor }, ports) };
  },
  async run(input, { organization, actor }, ports) {
    const server = await ownServer(organization.name, input.server, ports);
    const { kind, tellsCallers } = input;
    if (server.upstream.kind !== 'http') {
      if (kind !== 'none' || tellsCallers) throw onlyHttp();
    } else if (kind === 'none') {
      await ports.upstreamAccesses.clear(server.id);
    } else {
      const access = await chosenAccess({ ...input, kind }, { server, actor }, ports);
      if (!(await ports.upstreamAccesses.set(access))) {
        throw new AdministrationRefusal('conflict', 'where its calls go was changed meanwhile');
      }
    }
    if (tellsCallers !== undefined) {
      await ports.upstreamAccesses.setTellsCallers(server.id, tellsCallers);
    }
    return showAccess(organization.name, input.server, ports);
  },
});
