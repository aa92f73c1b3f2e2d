import { z } from 'zod';

import { findClient } from '#db/clients';
import { updateProvider } from '#db/identity-providers';
import { isWorkloadIssuer } from '#db/trust-rules';
import { command, type Command } from './command.ts';
import { fields, surfaces, words, yesOrNo } from './fields.ts';
import {
  ofProvider,
  ownProvider,
  providerPath,
  providerViewSchema,
  toProviderView,
} from './identity-providers.ts';
import { organizationOperation, type Operation, type WithDb } from './operation.ts';
import { ownServer } from './paths.ts';
import { organizationArgument, textArgument } from './positionals.ts';
import { conflict, invalidField } from './refusal.ts';

/** Changes whether an identity provider may vouch for members, to which applications, and for which servers. */
export const providerUpdateAssertions = organizationOperation({
  name: 'provider.update-assertions',
  doc: 'Change to which applications an identity provider may vouch for members, and where; omitted fields keep their value, and what it vouched for before ends',
  route: { method: 'PATCH', path: `${providerPath}/assertions` },
  permission: 'provider.manage',
  input: z.strictObject({
    ...ofProvider,
    assertionsAllowed: z
      .boolean()
      .optional()
      .describe('Whether applications may exchange its identity assertions for tokens')
      .register(surfaces, {
        option: {
          name: 'allow',
          value: 'YES|NO',
          doc: 'whether applications may exchange its identity assertions for tokens',
          read: yesOrNo,
        },
        control: {
          kind: 'checkbox',
          group: { name: 'allowed', label: 'Applications' },
          label: 'Let this provider give applications access for members',
          help: 'Members are not asked. They see and can withdraw the access of each application.',
        },
      }),
    assertionClients: z
      .array(fields.clientId)
      .max(100)
      .optional()
      .describe(
        'The ids of the clients that it may vouch to; if empty, those that administrators of this organization created',
      )
      .register(surfaces, {
        option: {
          name: 'client',
          value: 'ID',
          repeated: true,
          doc:
            'a client that it may vouch to; ' +
            "'' alone for all that administrators of the organization created",
        },
        control: {
          kind: 'textarea',
          label: 'Clients',
          subject: 'A client',
          help: 'The client IDs, one per line; for an application that describes itself, the URL. Empty: all that administrators of this organization created.',
          optional: false,
          attributes: { spellcheck: 'false', autocapitalize: 'none' },
          entries: { between: 'lines' },
        },
      }),
    assertionServers: z
      .array(z.string().max(100))
      .max(500)
      .optional()
      .describe('The names of the servers where it may vouch; if empty, all of the organization')
      .register(surfaces, {
        option: {
          name: 'server',
          value: 'NAME',
          repeated: true,
          doc: "a server where it may vouch; '' alone for all of the organization",
        },
        control: {
          kind: 'textarea',
          label: 'Servers',
          subject: 'A server',
          help: 'The names of servers, one per line. Empty: all of this organization.',
          optional: false,
          attributes: { spellcheck: 'false', autocapitalize: 'none' },
          entries: { between: 'lines' },
        },
      }),
    nativeClientId: words(500)
      .nullable()
      .optional()
      .describe(
        'The client of Latchkey’s proxy at the provider, without a secret. The server names it to members who signed in; empty or null: it does not',
      )
      .register(surfaces, {
        option: {
          name: 'native-client',
          value: 'ID',
          doc: "the client of Latchkey's proxy at the provider, of which members are told; '' for none",
        },
        control: {
          kind: 'text',
          label: 'Client ID of Latchkey’s proxy there',
          subject: 'The client ID',
          help: 'A native application without a secret. Once a member has signed in to one server, their proxy reaches the others through it without a consent page. Leave empty to turn this off.',
          optional: false,
          attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
    keysUrl: z
      .string()
      .max(500)
      .nullable()
      .optional()
      .describe('Where the keys of its assertions are; empty or null if its configuration says so')
      .register(surfaces, {
        option: { value: 'URL', doc: "where its keys are; '' if its configuration says so" },
        control: {
          kind: 'text',
          type: 'url',
          label: 'Keys URL',
          subject: 'The keys URL',
          help: 'Only if the configuration of the provider does not say where its keys are.',
          optional: false,
          attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
  }),
  output: providerViewSchema,
  target: ({ providerId }) => `provider:${providerId}`,
  async ahead({ keysUrl }, _, ports) {
    if (!keysUrl) return {};
    const problem = await ports.providerSetup.problemOf(keysUrl);
    if (problem !== undefined) throw invalidField('keysUrl', problem);
    return {};
  },
  async run(input, { organization }, ports) {
    const { providerId, assertionsAllowed, keysUrl, nativeClientId } = input;
    const { id, issuer } = await ownProvider(organization, providerId, ports);
    if (assertionsAllowed && (await isWorkloadIssuer(ports.db, organization.id, issuer))) {
      const why = 'its issuer is one of workloads of this organization: revoke those clients first';
      throw conflict(why);
    }
    const clients = input.assertionClients?.filter((client) => client !== '');
    const servers = input.assertionServers?.filter((server) => server !== '');
    for (const client of clients ?? []) await checkClient(client, organization.name, ports);
    await updateProvider(ports.db, organization.id, id, {
      ...(assertionsAllowed !== undefined && { assertionsAllowed }),
      ...(clients && { assertionClients: [...new Set(clients)] }),
      ...(servers && {
        assertionServers: await serverIds(servers, organization.name, ports),
      }),
      ...(keysUrl !== undefined && { keysUrl: keysUrl || undefined }),
      ...(nativeClientId !== undefined && { nativeClientId: nativeClientId || undefined }),
    });
    return toProviderView(await ownProvider(organization, providerId, ports), ports);
  },
});

/** @throws {AdministrationRefusal} `invalid` if the client does not exist, is revoked or belongs to another organization */
async function checkClient(clientId: string, organization: string, { db }: WithDb): Promise<void> {
  if (clientId.startsWith('https://') && URL.canParse(clientId)) return;
  const client = await findClient(db, clientId);
  const isForeign = client?.organization !== undefined && client.organization !== organization;
  if (!client || client.revokedAt !== undefined || isForeign) {
    throw invalidField('assertionClients', 'names a client that does not exist');
  }
}

async function serverIds(
  names: readonly string[],
  organization: string,
  ports: WithDb,
): Promise<string[]> {
  const ids: string[] = [];
  for (const name of new Set(names)) {
    const server = await ownServer(organization, name, ports).catch(() => {
      throw invalidField('assertionServers', 'names a server that does not exist');
    });
    ids.push(server.id);
  }
  return ids;
}

export const assertionOperations: readonly Operation[] = [providerUpdateAssertions];

export const assertionCommands: readonly Command[] = [
  command(providerUpdateAssertions, {
    words: 'provider assertions',
    positionals: [organizationArgument, textArgument('ID', 'providerId')],
    doc: 'change to which applications an identity provider may vouch for members',
    requiresOption: true,
    prints: [
      'id',
      'name',
      { assertions: ({ assertionsAllowed }) => (assertionsAllowed ? 'allowed' : 'refused') },
      'assertionClients',
      'assertionServers',
      'nativeClientId',
      'keysUrl',
    ],
  }),
];
