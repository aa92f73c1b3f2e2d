import { json, knownBaseUrl, masterKeyFile, outboundHost } from '#config/option';
import { administer, command, listCommand, type Command } from './command.ts';
import {
  providerCheck,
  providerCreate,
  providerDisable,
  providerEnable,
  providerList,
  providerRemove,
  providerUpdate,
} from './identity-providers.ts';
import { providerMembers, providerUnlink } from './linked-members.ts';
import {
  namedOrganization,
  organizationArgument,
  organizationIn,
  requireUser,
  textArgument,
} from './positionals.ts';
import { printMade } from './print.ts';

const providerArguments = [organizationArgument, textArgument('ID', 'providerId')];
const columns = [
  'id',
  'name',
  'issuer',
  'clientId',
  'redirectUri',
  'logoutUri',
  'status',
  'members',
] as const;

const unlinkCommand: Command = {
  words: 'provider unlink',
  positionals: ['ORG', 'ID', 'EMAIL'],
  options: [json],
  doc: 'unlink a person from an identity provider, and end their sessions through it',
  async run(input, { out, ...ports }) {
    const [name = '', providerId = '', email = ''] = input.positionals;
    const { name: organization } = await namedOrganization(name, ports.stores);
    const user = await requireUser(email, ports.stores);
    await administer(providerUnlink, { organization, providerId, userId: user.id }, ports);
    const facts = { user: user.email, unlinked_at: ports.clock.now() };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const providerCommands: readonly Command[] = [
  command(providerCreate, {
    words: 'provider create',
    positionals: [organizationArgument],
    options: [masterKeyFile, outboundHost, knownBaseUrl],
    doc: 'add an identity provider to an organization',
    prints: columns,
    hint: (_, given) =>
      `prove the domains of its addresses (latchkey-server domain add ${organizationIn(given)} DOMAIN), then test it on the page Sign-in`,
  }),
  listCommand(providerList, {
    words: 'provider list',
    positionals: [organizationArgument],
    options: [knownBaseUrl],
    doc: 'list the identity providers of an organization',
    prints: columns,
    empty: (given) =>
      `no identity providers yet: latchkey-server provider create ${organizationIn(given)} …`,
  }),
  command(providerUpdate, {
    words: 'provider update',
    positionals: providerArguments,
    options: [masterKeyFile, knownBaseUrl],
    doc: 'change an identity provider; omitted options keep their value',
    requiresOption: true,
    prints: columns,
  }),
  command(providerCheck, {
    words: 'provider check',
    positionals: providerArguments,
    options: [masterKeyFile, outboundHost],
    doc: 'read the configuration and the keys of an identity provider now',
    failed: ({ isReady, fault, detail }) =>
      isReady ? undefined : `the provider cannot be used: ${fault} (${detail})`,
    prints: [{ id: (_, { given }) => given['providerId'], answer: () => 'ready' }],
  }),
  command(providerDisable, {
    words: 'provider disable',
    positionals: providerArguments,
    doc: 'disable an identity provider; its sessions end',
    prints: columns,
  }),
  command(providerEnable, {
    words: 'provider enable',
    positionals: providerArguments,
    doc: 'enable an identity provider',
    prints: columns,
  }),
  command(providerRemove, {
    words: 'provider remove',
    positionals: providerArguments,
    doc: 'remove an identity provider with its links; this cannot be undone',
    prints: ['id', { removed_at: (_, { now }) => now }],
  }),
  listCommand(providerMembers, {
    words: 'provider members',
    positionals: providerArguments,
    doc: 'list the people who are linked at an identity provider',
    prints: ['email', 'subject', 'linkedAt', 'usedAt'],
    empty: 'no person is linked yet',
  }),
  unlinkCommand,
];
