import { json, knownBaseUrl, masterKeyFile, outboundHost } from '#config/option';
import { type Option } from '#model/option';
import type { Input } from '#config/read-options';
import { readNamedSecret } from '#config/named-file';
import { UsageError } from '#config/usage-error';
import { administer, type Command, listCommand } from './command.ts';
import { yesOrNo } from './fields.ts';
import { placeOf, requireUser, serverArgument } from './positionals.ts';
import { printMade } from './print.ts';
import { accessRead as read, accessSet as set, type AccessView } from './upstream-access.ts';
import { connectionEnd as end, connectionList as list } from './upstream-connections.ts';

const path = ['ORG/SERVER'];
const setOptions: readonly Option[] = [
  { name: 'none', doc: 'send no token' },
  { name: 'client-credentials', doc: 'send one token for all callers' },
  { name: 'per-person', doc: 'send a token of the account that each person connects' },
  { name: 'per-person-key', doc: 'send the key that each person enters' },
  {
    name: 'key-header',
    value: 'NAME',
    doc: 'the header that contains the key (default: the current one, or Authorization)',
  },
  {
    name: 'key-template',
    value: 'TEXT',
    doc: 'the value of that header, with {key} in it (default: the current one, or Bearer {key} in Authorization and {key} in any other)',
  },
  { name: 'key-label', value: 'TEXT', doc: 'what people call the key (default: API key)' },
  { name: 'key-help-url', value: 'URL', doc: 'where people get a key; empty for none' },
  {
    name: 'key-tool',
    value: 'TOOL',
    doc: 'a tool that only reads and needs no arguments, with which a key is tried; empty for none',
  },
  {
    name: 'issuer',
    value: 'URL',
    doc: 'the authorization server (default: the one that the upstream announces)',
  },
  {
    name: 'client-id',
    value: 'ID',
    doc: 'the client ID there (default: the current one, or a new registration)',
  },
  {
    name: 'client-secret-file',
    value: 'FILE',
    doc: 'a file with the client secret (default: the current secret)',
  },
  {
    name: 'scope',
    value: 'SCOPE',
    repeated: true,
    doc: 'a scope to request (default: those that the upstream announces)',
  },
  {
    name: 'omit-resource',
    doc: 'request tokens without a resource, if the authorization server refuses one: other servers may accept them',
  },
  {
    name: 'forward-caller',
    value: 'yes|no',
    doc: 'forward the caller’s identity in a signed assertion',
  },
  masterKeyFile,
  outboundHost,
  knownBaseUrl,
  json,
];

export const serverSetAccess: Command = {
  words: 'server set-access',
  positionals: path,
  options: setOptions,
  doc: 'set the upstream authentication: no token, one token for all callers, or a token or a key of each person',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const kind = kindOf(input);
    const forwards = input.text('forward-caller');
    const secretFile = input.text('client-secret-file');
    const scopes = input.list('scope');
    const now = kind === undefined ? await administer(read, at, ports) : undefined;
    if (now && now.kind !== 'none') {
      throw new UsageError(kindChoice);
    }
    const shown = await administer(
      set,
      {
        ...at,
        kind: kind ?? 'none',
        issuer: input.text('issuer'),
        clientId: input.text('client-id'),
        clientSecret:
          secretFile === undefined ? undefined : readNamedSecret(secretFile, 'client-secret-file'),
        scopes: scopes.length > 0 ? scopes : undefined,
        omitsResource: input.flag('omit-resource') || undefined,
        keyHeader: input.text('key-header'),
        keyTemplate: input.text('key-template'),
        keyLabel: input.text('key-label'),
        keyHelpUrl: input.text('key-help-url'),
        keyTool: input.text('key-tool'),
        forwardsCaller: forwards === undefined ? undefined : yesOrNo(forwards, 'forward-caller'),
      },
      ports,
    );
    printMade(facts(at, shown), { json: input.flag('json'), out });
  },
};

export const serverShowAccess: Command = {
  words: 'server show-access',
  positionals: path,
  options: [json],
  doc: 'show the upstream authentication',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const shown = await administer(read, at, ports);
    printMade(facts(at, shown), { json: input.flag('json'), out });
  },
};

export const connectionList = listCommand(list, {
  words: 'connection list',
  positionals: [serverArgument],
  doc: 'list the people who connected an account, or entered a key, at the upstream of a server',
  prints: [
    { user: 'email' },
    'kind',
    'createdAt',
    'renewedAt',
    'failedAt',
    'provedAt',
    'lastUsedAt',
  ],
  empty: 'no person has connected an account or entered a key',
});

export const connectionEnd: Command = {
  words: 'connection end',
  positionals: [...path, 'EMAIL'],
  options: [json],
  doc: 'disconnect a person’s account, or remove their key, immediately; a running server revokes the tokens of an account',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const user = await requireUser(input.positionals[1] ?? '', ports.stores);
    await administer(end, { ...at, userId: user.id }, ports);
    const ended = { user: user.email, ended_at: ports.clock.now() };
    printMade(ended, { json: input.flag('json'), out });
  },
};

function facts(at: { organization: string; server: string }, shown: AccessView) {
  return {
    name: `${at.organization}/${at.server}`,
    access: shown.kind,
    issuer: shown.issuer,
    client_id: shown.clientId,
    scopes: shown.scopes,
    resource: shown.resource,
    redirect_path: shown.redirectPath,
    connections: shown.connections,
    ...(shown.kind === 'person_key' && {
      key_header: shown.keyHeader,
      key_template: shown.keyTemplate,
      key_label: shown.keyLabel,
      key_help_url: shown.keyHelpUrl,
      key_tool: shown.keyTool,
    }),
    forwards_caller: shown.forwardsCaller ? 'yes' : 'no',
  };
}

const kinds = [
  ['none', 'none'],
  ['client-credentials', 'client_credentials'],
  ['per-person', 'authorization_code'],
  ['per-person-key', 'person_key'],
] as const;
const kindChoice = `choose one of ${kinds.map(([option]) => `--${option}`).join(', ')}`;

/** @throws {UsageError} when several kinds are given, or neither a kind nor `--forward-caller` */
function kindOf(input: Input): AccessView['kind'] | undefined {
  const [chosen, another] = kinds.filter(([option]) => input.flag(option));
  if (another) throw new UsageError(kindChoice);
  if (!chosen && input.text('forward-caller') === undefined) {
    throw new UsageError(`${kindChoice}, --forward-caller`);
  }
  return chosen?.[1];
}
