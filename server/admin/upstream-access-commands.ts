import { json, knownBaseUrl, masterKeyFile, outboundHost } from '#config/option';
import { type Option } from '#model/option';
import type { Input } from '#config/read-options';
import { readNamedSecret } from '#config/named-file';
import { UsageError } from '#config/usage-error';
import { administer, type Command } from './command.ts';
import { namedServer, requireUser } from './positionals.ts';
import { printMade, printRows } from './print.ts';
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
    const at = await placeOf(input, ports.stores);
    const kind = kindOf(input);
    const secretFile = input.text('client-secret-file');
    const scopes = input.list('scope');
    const now = kind === undefined ? await administer(read, at, ports) : undefined;
    if (now && now.kind !== 'none') {
      throw new UsageError(
        'choose one of --none, --client-credentials, --per-person, --per-person-key',
      );
    }
    const shown = await administer(
      set,
      {
        ...at,
        kind: kind ?? 'none',
        ...given('issuer', input.text('issuer')),
        ...given('clientId', input.text('client-id')),
        ...(secretFile !== undefined && {
          clientSecret: readNamedSecret(secretFile, 'client-secret-file'),
        }),
        ...(scopes.length > 0 && { scopes: [...scopes] }),
        ...(input.flag('omit-resource') && { omitsResource: true }),
        ...given('keyHeader', input.text('key-header')),
        ...given('keyTemplate', input.text('key-template')),
        ...given('keyLabel', input.text('key-label')),
        ...given('keyHelpUrl', input.text('key-help-url')),
        ...given('keyTool', input.text('key-tool')),
        ...forwards(input.text('forward-caller')),
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
    const at = await placeOf(input, ports.stores);
    const shown = await administer(read, at, ports);
    printMade(facts(at, shown), { json: input.flag('json'), out });
  },
};

export const connectionList: Command = {
  words: 'connection list',
  positionals: path,
  options: [json],
  doc: 'list the people who connected an account, or entered a key, at the upstream of a server',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input, ports.stores);
    const { items } = await administer(list, at, ports);
    const rows = items.map((one) => ({
      user: one.email,
      kind: one.kind,
      created_at: one.createdAt,
      renewed_at: one.renewedAt,
      failed_at: one.failedAt,
      proved_at: one.provedAt,
      last_used_at: one.lastUsedAt,
    }));
    const empty = 'no person has connected an account or entered a key';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const connectionEnd: Command = {
  words: 'connection end',
  positionals: [...path, 'EMAIL'],
  options: [json],
  doc: 'disconnect a person’s account, or remove their key, immediately; a running server revokes the tokens of an account',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input, ports.stores);
    const user = await requireUser(input.positionals[1] ?? '', ports.stores);
    await administer(end, { ...at, userId: user.id }, ports);
    const ended = { user: user.email, ended_at: ports.clock.now() };
    printMade(ended, { json: input.flag('json'), out });
  },
};

async function placeOf(input: Input, stores: Parameters<typeof namedServer>[1]) {
  const { organization, name } = await namedServer(input.positionals[0] ?? '', stores);
  return { organization, server: name };
}

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

/** @throws {UsageError} when more than one is given */
function kindOf(input: Input): AccessView['kind'] | undefined {
  const chosen = [
    ...(input.flag('none') ? (['none'] as const) : []),
    ...(input.flag('client-credentials') ? (['client_credentials'] as const) : []),
    ...(input.flag('per-person') ? (['authorization_code'] as const) : []),
    ...(input.flag('per-person-key') ? (['person_key'] as const) : []),
  ];
  if (chosen.length > 1) {
    throw new UsageError(
      'choose one of --none, --client-credentials, --per-person, --per-person-key',
    );
  }
  const [kind] = chosen;
  if (kind === undefined && input.text('forward-caller') === undefined) {
    throw new UsageError(
      'choose one of --none, --client-credentials, --per-person, --per-person-key, --forward-caller',
    );
  }
  return kind;
}

function forwards(text: string | undefined): { forwardsCaller?: boolean } {
  if (text === undefined) return {};
  if (text === 'yes' || text === 'no') return { forwardsCaller: text === 'yes' };
  throw new UsageError(`--forward-caller '${text}' is neither yes nor no`);
}

function given(name: string, value: string | undefined) {
  return value === undefined ? {} : { [name]: value };
}
