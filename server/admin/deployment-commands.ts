import { checkBaseUrl } from '#config/base-url';
import { baseUrl, json } from '#config/option';
import { UsageError } from '#config/usage-error';
import {
  assistantFileNames,
  assistantFiles,
  connections,
  isAssistantFile,
} from '#deployment/assistant-files';
import { administer, command, type Command, listCommand, printed } from './command.ts';
import {
  deploymentFile,
  deploymentList,
  deploymentPublish,
  deploymentSet,
  deploymentUnpublish,
  type DeploymentView,
} from './deployment.ts';
import { findGroups } from './groups.ts';
import {
  type Given,
  namedOrganization,
  namedServer,
  organizationArgument,
  organizationIn,
  serverArgument,
} from './positionals.ts';
import { printMade } from './print.ts';

const groupOption = (doc: string) =>
  ({ name: 'group', value: 'GROUP', repeated: true, doc }) as const;

const serverColumn = {
  server: ({ server }: DeploymentView, { given }: { given: Given }) =>
    `${organizationIn(given)}/${server}`,
};
const publicColumn = { public: (view: DeploymentView) => view.publication?.description ?? null };
const columns = [
  serverColumn,
  'install',
  { groups: ({ groups }: DeploymentView) => groups.map(({ name }) => name) },
  publicColumn,
] as const;

const file: Command = {
  words: 'deployment file',
  positionals: ['FILE', 'ORG'],
  options: [
    {
      name: 'connection',
      value: connections.join('|'),
      fallback: connections[0],
      doc: 'whether assistants connect themselves, or start the installed command latchkey',
    },
    groupOption('also the servers for members of this group'),
    baseUrl,
    json,
  ],
  doc: 'print a file for device management with the servers that are installed by default; an unknown FILE lists all',
  async run(input, ports) {
    const [name = '', place = ''] = input.positionals;
    if (!isAssistantFile(name)) {
      throw new UsageError(`'${name}' is no file`, `files: ${assistantFileNames.join(', ')}`);
    }
    const base = checkBaseUrl(input.must('base-url'));
    const { name: organization } = await namedOrganization(place, ports.stores);
    const groupIds = await findGroups(organization, input.list('group'), ports);
    const connection = input.must('connection');
    const given = { organization, file: name, connection, groupIds };
    const at = { stores: { ...ports.stores, base }, clock: ports.clock };
    const made = await administer(
      deploymentFile,
      given,
      at,
      () => `latchkey-server deployment set ${organization}/SERVER --everyone`,
    );
    const { fileName, mediaType, places, servers, warning, text } = made;
    if (input.flag('json')) {
      const facts = { file: name, file_name: fileName, media_type: mediaType, places, servers };
      return printMade({ ...facts, warning, text }, { json: true, out: ports.out });
    }
    ports.tell(`${fileName}: ${assistantFiles[name].effect}`);
    if (warning !== null) ports.tell(`warning: ${warning}`);
    for (const line of text.replace(/\n$/, '').split('\n')) ports.out(line);
  },
};

const list = listCommand(deploymentList, {
  words: 'deployment list',
  positionals: [organizationArgument],
  doc: 'list servers with the computers on which they are installed by default, and what is public of them',
  prints: columns,
  empty: (given) => `no servers yet: latchkey-server server create ${organizationIn(given)}/NAME`,
});

const set: Command = {
  words: 'deployment set',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'everyone', doc: 'install it for everyone in the organization' },
    groupOption('install it for members of this group'),
    { name: 'nobody', doc: 'install it for nobody' },
    json,
  ],
  doc: 'choose on whose computers a server is installed by default; this gives nobody access',
  async run(input, ports) {
    const at = await namedServer(input.positionals[0] ?? '', ports.stores);
    const { organization, name: server } = at;
    const names = input.list('group');
    const chosen = [
      ...(['everyone', 'nobody'] as const).filter((one) => input.flag(one)),
      ...(names.length > 0 ? (['groups'] as const) : []),
    ];
    const [install] = chosen;
    if (!install || chosen.length > 1) {
      throw new UsageError('give --everyone, --group or --nobody, and only one of them');
    }
    const groupIds = await findGroups(organization, names, ports);
    const given = { organization, server, install, groupIds };
    const made = await administer(deploymentSet, given, ports);
    const facts = printed(columns, made, { given, now: ports.clock.now() });
    printMade(facts, { json: input.flag('json'), out: ports.out });
  },
};

const publishing = {
  positionals: [serverArgument],
  prints: [serverColumn, publicColumn],
};

export const deploymentCommands: readonly Command[] = [
  list,
  set,
  file,
  command(deploymentPublish, {
    ...publishing,
    words: 'deployment publish',
    doc: 'list a server publicly, in the MCP registry and with a server card: anyone can read its URL and these words',
  }),
  command(deploymentUnpublish, {
    ...publishing,
    words: 'deployment unpublish',
    doc: 'stop listing a server publicly',
  }),
];
