import { z } from 'zod';

import { AdministrationRefusal } from './refusal.ts';
import { fields } from './fields.ts';
import { actorName, organizationOperation, type Operation } from './operation.ts';
import { ofServer, ownServer, serverPath } from './paths.ts';
import { acceptToolDefinitions, listToolDefinitions, type KnownDefinition } from '#db/definitions';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { administer, listCommand, type Command } from './command.ts';
import { longestName } from '#tools/definition';
import { placeOf, serverArgument } from './positionals.ts';
import { printMade } from './print.ts';

const path = `${serverPath}/tools`;
const digest = z.string().max(100).describe('SHA-256 of the tool’s definition');
const toolName = z.string().max(longestName);

const toolViewSchema = z
  .object({
    name: z.string(),
    accepted: z.string().describe('The accepted definition, as JSON'),
    acceptedAt: fields.at,
    changed: z
      .object({ seen: z.string().describe('The current definition'), digest, changedAt: fields.at })
      .nullable()
      .describe('Null if the definition is the accepted one'),
  })
  .meta({ id: 'Tool' });

/** The view of a tool: its accepted definition and, if it differs, the current one. */
export type ToolView = z.output<typeof toolViewSchema>;

export const toolList = organizationOperation({
  name: 'tool.list',
  doc: 'List the tools of a server that were seen so far, and which of them changed',
  route: { method: 'GET', path },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: z.object({
    changedTools: z.enum(['flag', 'withhold']),
    items: z.array(toolViewSchema),
  }),
  async run({ server: name }, { organization }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const known = await listToolDefinitions(ports.db, server.target.id);
    return { changedTools: server.target.changedTools, items: known.map(toToolView) };
  },
});

export const toolAccept = organizationOperation({
  name: 'tool.accept',
  doc: 'Accept the current definitions of changed tools; identify each by the digest of the definition that you read',
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
  async run({ server: name, tools }, { organization, actor }, ports) {
    const { target } = await ownServer(organization.name, name, ports);
    const decision = { by: actorName(actor), at: ports.clock.now() };
    const accepted = await acceptToolDefinitions(ports.db, target.id, tools, decision);
    if (accepted.length > 0) return { accepted };
    throw new AdministrationRefusal(
      'conflict',
      'these tools have changed since you read them; read the list again',
    );
  },
});

function toToolView({ name, accepted, acceptedAt, seen, changedAt }: KnownDefinition): ToolView {
  const changed =
    seen && changedAt !== undefined ? { seen: seen.text, digest: seen.digest, changedAt } : null;
  return { name, accepted: accepted?.text ?? '', acceptedAt: acceptedAt ?? 0, changed };
}

export const toolOperations: readonly Operation[] = [toolList, toolAccept];

const acceptCommand: Command = {
  words: 'server accept-tools',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'tool', value: 'NAME', repeated: true, doc: 'a tool whose definition changed' },
    json,
  ],
  doc: 'accept the current definitions of changed tools',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const names = input.list('tool');
    const { items } = await administer(toolList, at, ports);
    const tools = items.flatMap(({ name, changed }) =>
      changed && names.includes(name) ? [{ name, digest: changed.digest }] : [],
    );
    const missing = names.filter((name) => !tools.some((tool) => tool.name === name));
    if (names.length === 0 || missing.length > 0)
      throw new CommandError(
        names.length === 0
          ? 'no tool is given'
          : `no changed tool of ${at.organization}/${at.server} is called ${missing.join(', ')}`,
        `latchkey-server server tools ${at.organization}/${at.server}`,
      );
    const { accepted } = await administer(toolAccept, { ...at, tools }, ports);
    const facts = { name: `${at.organization}/${at.server}`, accepted };
    printMade({ id: accepted.join(' '), ...facts }, { json: input.flag('json'), out });
  },
};

export const toolCommands: readonly Command[] = [
  listCommand(toolList, {
    words: 'server tools',
    positionals: [serverArgument],
    doc: 'list the tools of a server that were seen so far, and which of them changed',
    prints: [
      'name',
      'acceptedAt',
      {
        changed_at: ({ changed }) => changed?.changedAt ?? null,
        digest: ({ changed }) => changed?.digest ?? null,
      },
    ],
    empty: 'no tools seen yet',
  }),
  acceptCommand,
];
