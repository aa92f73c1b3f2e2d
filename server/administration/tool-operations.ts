import { z } from 'zod';

import type { KnownTool } from '#tools/tool-definition-store';
import { AdministrationRefusal } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { ofServer, ownServer, serverPath } from './shown-server.ts';

const path = `${serverPath}/tools`;
const digest = z.string().max(100).describe('SHA-256 of what the server says of the tool');
const toolName = z.string().max(1_000);

const shownTool = z
  .object({
    name: z.string(),
    accepted: z.string().describe('What the server said of it when it was accepted, as JSON'),
    acceptedAt: fields.at,
    changed: z
      .object({ seen: z.string().describe('What it says now'), digest, changedAt: fields.at })
      .nullable()
      .describe('Null while it is as it was accepted'),
  })
  .meta({ id: 'Tool' });

/** A tool of a server as it was accepted, and as it is now where that is another. */
export type ShownTool = z.output<typeof shownTool>;

export const toolList = organizationOperation({
  name: 'tool.list',
  doc: 'List the tools that a server told its callers of, and which of them turned into others since',
  route: { method: 'GET', path },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: z.object({
    changedTools: z.enum(['flag', 'withhold']),
    items: z.array(shownTool),
  }),
  async run({ server: name }, { organization }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const known = await ports.definitions.of(server.id);
    return { changedTools: server.changedTools, items: known.map(showTool) };
  },
});

export const toolAccept = organizationOperation({
  name: 'tool.accept',
  doc: 'Accept changed tools as their server tells them now; each by the digest of what was read',
  route: { method: 'POST', path: `${path}/accept` },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    tools: z
      .array(z.strictObject({ name: toolName, digest }))
      .min(1)
      .max(1_000),
  }),
  output: z.object({ accepted: z.array(z.string()) }),
  target: ({ organization, server, tools }) =>
    `tool:${organization}/${server}/${tools.map(({ name }) => name).join(',')}`,
  async run({ server: name, tools }, { organization }, ports) {
    const { id } = await ownServer(organization.name, name, ports);
    const accepted = await ports.definitions.accept(id, tools, ports.clock.now());
    if (accepted.length > 0) return { accepted };
    throw new AdministrationRefusal(
      'conflict',
      'none of these tools is still as you read it; look at the list again',
    );
  },
});

function showTool({ name, accepted, acceptedAt, seen, changedAt }: KnownTool): ShownTool {
  const changed =
    seen && changedAt !== undefined ? { seen: seen.text, digest: seen.digest, changedAt } : null;
  return { name, accepted: accepted.text, acceptedAt, changed };
}
