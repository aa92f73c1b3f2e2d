import { isIP } from 'node:net';
import type { FastifyReply } from 'fastify';

import {
  deploymentFile,
  deploymentList,
  deploymentSelection,
  type DeploymentView,
} from '#admin/deployment';
import { groupList } from '#admin/groups';
import { settingsRead } from '#admin/organizations';
import { notFound } from '#admin/refusal';
import {
  assistantFileNames,
  assistantFiles,
  type Connection,
  connections,
  type DeploymentPlan,
  linksOf,
  nothingPublished,
} from '#deployment/assistant-files';
import { registryUrl } from '#deployment/registry-entries';
import { isPublicAddress } from '#outbound/checked-addresses';
import { checkboxes, type ExplainedChoice, radioButtons } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Badge, dashboardPath, type Frame, layout, pageHeading } from '#web/layout';
import { queryText } from '#web/page-request';
import { copyable, dataTable, type ListFrame, pager, type Table } from '#web/tables';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { checkedValues, sentence } from './forms.ts';
import { listQuery } from './lists.ts';
import { fileHeaders, sendDashboardPage } from './page.ts';
import { counted } from './questions.ts';

const toManage = 'server.manage';

/** `/deploy`: which servers are installed by default, the files for device management, and what is public. */
export function deployRoutes(guard: DashboardGuard): void {
  guard.get('/deploy', toManage, showDeploy);
  guard.get('/deploy/files/:file', toManage, sendFile);
}

export function deployPath(organization: string): string {
  return `${dashboardPath(organization)}/deploy`;
}

/** The groups for whose computers the files are, and how assistants connect. */
interface Selection {
  readonly connection: Connection;
  readonly groupIds: readonly string[];
}

/** The selection in a URL. Anything unknown is ignored. */
function selectionIn(request: DashboardRequest, groups: readonly { id: string }[]): Selection {
  const { searchParams } = new URL(request.url, 'http://localhost');
  const sent = checkedValues(new Map(searchParams), 'group');
  return {
    connection:
      connections.find((one) => one === queryText(request, 'connection')) ?? connections[0],
    groupIds: groups.map(({ id }) => id).filter((id) => sent.includes(id)),
  };
}

function queryOf({ connection, groupIds }: Selection): string {
  const query = new URLSearchParams({ connection });
  for (const id of groupIds) query.append(`group.${id}`, id);
  return query.toString();
}

/** `Everyone`, `Finance, Sales` or `Nobody`. */
function installWords({ install, groups }: Pick<DeploymentView, 'install' | 'groups'>) {
  if (install === 'everyone') return 'Everyone';
  const names = groups.map(({ name }) => name).join(', ');
  return install === 'groups' && names !== '' ? names : 'Nobody';
}

export const publicBadge: Badge = { text: 'Public', tone: 'care' };
const disabledBadge: Badge = { text: 'Disabled', tone: 'plain' };

function rowOf(view: DeploymentView, home: string): Table['rows'][number] {
  const { server, title, publication, disabledAt } = view;
  const badges = [...(publication ? [publicBadge] : []), ...(disabledAt ? [disabledBadge] : [])];
  return {
    id: server,
    isOver: disabledAt !== null,
    cells: [
      {
        kind: 'title',
        of: { name: server, title: title || undefined },
        href: `${home}/servers/${server}`,
        badges,
      },
      { kind: 'text', text: installWords(view) },
      { kind: 'text', text: publication?.description ?? '' },
    ],
  };
}

const showDeploy: PageHandler = async (visit, request, reply, { base, ports }) => {
  const { organization, perform } = visit;
  const home = deployPath(organization);
  const usual = { sort: 'name', order: 'asc' } as const;
  const columns = ['Server', 'Installed for', 'Public description'];
  const query = listQuery(request, { states: [], columns, usual });
  const { page, limit } = query.input;
  const { items, total } = await perform(deploymentList, { page, limit });
  const { items: groups } = await perform(groupList);
  const selection = selectionIn(request, groups);
  const { groupIds } = selection;
  const { servers, isAnyPublished } = await perform(deploymentSelection, { groupIds });
  const plan: DeploymentPlan = {
    base,
    registryUrl: registryUrl(base, organization),
    organization,
    connection: selection.connection,
    servers: servers.map((name) => ({ name, title: '' })),
  };
  const data: DeployPageData = {
    home,
    table: {
      caption: 'Servers and where they are installed',
      columns: query.columns,
      rows: items.map((view) => rowOf(view, home)),
      empty: { text: 'No servers yet. Create a server first.' },
      now: ports.clock.now(),
    },
    list: query.frame(total),
    plan,
    query: queryOf(selection),
    groups: groups.map(({ id, name, members }) => ({
      value: id,
      text: name,
      help: counted(members, 'person', 'people'),
      isChosen: selection.groupIds.includes(id),
    })),
    warning: await suspensionOf(selection.connection, visit),
    isAnyPublished,
  };
  return sendDashboardPage(reply, visit, deployPage, data, { crumbs: [{ text: 'Deploy' }] });
};

/** Says why assistants cannot sign in with this connection; `undefined` if they can. */
async function suspensionOf(
  connection: Connection,
  { perform }: Pick<DashboardVisit, 'perform'>,
): Promise<string | undefined> {
  const { openClientsAllowed, latchkeyProxyAllowed } = await perform(settingsRead);
  if (connection === 'direct' && !openClientsAllowed) {
    return 'Assistants that connect themselves cannot sign in: this organization does not accept self-registered apps. Accept them in the settings, or choose the command latchkey.';
  }
  if (connection === 'latchkey' && !latchkeyProxyAllowed) {
    return 'The command latchkey cannot sign in: the settings of this organization do not accept it.';
  }
  return undefined;
}

const sendFile: PageHandler = async (visit, request, reply): Promise<FastifyReply> => {
  const { items: groups } = await visit.perform(groupList);
  const file = assistantFileNames.find((name) => name === request.params['file']);
  if (!file) throw notFound('file');
  const selection = selectionIn(request, groups);
  const { fileName, mediaType, text } = await visit.perform(deploymentFile, { file, ...selection });
  return reply.headers(fileHeaders(fileName, mediaType)).send(text);
};

interface DeployPageData {
  readonly home: string;
  readonly table: Table;
  readonly list: ListFrame;
  readonly plan: DeploymentPlan;
  /** The selection, as the query of a link. */
  readonly query: string;
  readonly groups: readonly ExplainedChoice[];
  readonly warning: string | undefined;
  readonly isAnyPublished: boolean;
}

function deployPage(data: DeployPageData, frame: Frame): Html {
  const lead =
    'Choose which servers are on people’s computers from the start, and download the files for your device management. No file contains a secret: every person signs in.';
  const content = html`${pageHeading({ heading: 'Deploy', lead })}
${dataTable(data.table)}
${pager(data.list)}
${filesSection(data)}
${linksSection(data)}
${cloudSection(data.plan)}
${publicSection(data)}`;
  return layout({ title: 'Deploy', width: 'table' }, frame, content);
}

const connectionWords: Readonly<
  Record<Connection, { readonly text: string; readonly help: string }>
> = {
  direct: {
    text: 'Assistants connect directly',
    help: 'Nothing else needs to be installed. Each assistant signs in and stores its tokens in its own way.',
  },
  latchkey: {
    text: 'Assistants run the latchkey command',
    help: 'Install latchkey on the computers first, from /download/ on this server. Tokens are stored in the system keychain.',
  },
};

function filesSection({
  home,
  plan,
  query,
  groups,
  warning,
  isAnyPublished,
}: DeployPageData): Html {
  const { length } = plan.servers;
  const words =
    length === 0
      ? 'No server is installed by default for this choice, so there is nothing to download for most files: one without servers would forbid them all. Choose servers in the table above.'
      : `${counted(length, 'server')} in each file except the policies, which contain none: ${plan.servers.map(({ name }) => name).join(', ')}.`;
  return html`<section class="section" aria-labelledby="files-heading">
<h2 id="files-heading">Files for device management</h2>
<form method="get" action="${home}#files-heading">
${radioButtons({
  name: 'connection',
  legend: 'How assistants connect',
  options: connections.map((value) => {
    const { text, help } = connectionWords[value];
    return { value, text, help, isChosen: value === plan.connection };
  }),
})}
${
  groups.length > 0 &&
  checkboxes({
    name: 'group',
    legend: 'For members of these groups',
    help: 'If you choose no group, the files contain the servers that are installed for everyone.',
    options: groups,
  })
}
<div class="actions"><button>Apply</button></div>
</form>
${warning && html`<p class="notice warning" role="status">${warning}</p>`}
<p class="help" dir="auto">${words}</p>
<ul class="rows">
${assistantFileNames.map((name) => {
  const { title, fileName, effect, places, allowsOnlyPublished } = assistantFiles[name];
  return html`<li>
<div>
<strong>${title}</strong>
<p class="help">${effect}</p>
<p class="help">${places.map((place, index) => html`${index > 0 && html`<br>`}${place}`)}</p>
${allowsOnlyPublished && !isAnyPublished && html`<p class="notice warning">${sentence(nothingPublished)}</p>`}
</div>
${(length > 0 || allowsOnlyPublished) && html`<a class="button" href="${home}/files/${name}?${query}" download="${fileName}" aria-label="Download ${fileName}: ${title}">Download</a>`}
</li>`;
})}
</ul>
</section>`;
}

function linksSection({ plan }: DeployPageData): Html | false {
  if (plan.servers.length === 0) return false;
  return html`<section class="section" aria-labelledby="links-heading">
<h2 id="links-heading">Links for people</h2>
<p class="help">Each link adds one server to an assistant on the computer where it is opened. Put the links on your intranet or in an e-mail.</p>
<ul class="rows">
${plan.servers.map((server) => {
  const { cursor, vscode, bundle } = linksOf(plan, server);
  const { name } = server;
  return html`<li>
<div dir="auto">${name}</div>
<div class="actions">
<a class="button small-button" href="${cursor}" aria-label="Add ${name} to Cursor">Cursor</a>
<a class="button small-button" href="${vscode}" aria-label="Add ${name} to VS Code">VS Code</a>
<a class="button small-button" href="${bundle}" aria-label="Bundle of ${name}">Bundle (.mcpb)</a>
</div>
</li>`;
})}
</ul>
</section>`;
}

/** Where the calls of assistants come from, as their vendors describe it. */
const callers = [
  {
    heading: 'They call from their vendor’s cloud',
    names: 'Claude on the web and on phones, custom connectors of Claude Desktop, ChatGPT',
    needs:
      'They need an address that can be reached from the internet. Each person or an administrator adds the URL of the server as a connector.',
  },
  {
    heading: 'They call from the person’s computer',
    names:
      'Claude Code, Cursor, VS Code, Codex, Gemini CLI, Copilot CLI, opencode, Claude Desktop with latchkey or a bundle',
    needs: 'They need an address that the computer can reach: one in your network is enough.',
  },
] as const;

function cloudSection({ base }: DeploymentPlan): Html {
  const reach = isInternal(base)
    ? 'This address cannot be reached from the internet, so assistants in a cloud cannot call it. Ask the operator to start the server with --base-url and a public address.'
    : 'Latchkey cannot tell whether this address can be reached from the internet: open it on a phone outside your network.';
  return html`<section class="section" aria-labelledby="cloud-heading">
<h2 id="cloud-heading">Which assistants reach this server</h2>
<p>The address of this installation:</p>
${copyable(base, 'the address of this installation')}
<p class="help">${reach}</p>
<ul class="rows">
${callers.map(
  ({ heading, names, needs }) => html`<li>
<div>
<strong>${heading}</strong>
<p>${names}</p>
<p class="help">${needs}</p>
</div>
</li>`,
)}
</ul>
</section>`;
}

/** Whether a URL certainly cannot be reached from the internet. */
function isInternal(base: string): boolean {
  const host = new URL(base).hostname.replace(/^\[|\]$/g, '');
  if (isIP(host)) return !isPublicAddress(host);
  return !host.includes('.') || /\.(?:local|internal|lan|home|corp|intranet|localhost)$/.test(host);
}

function publicSection({ plan, isAnyPublished }: DeployPageData): Html {
  const state = isAnyPublished
    ? 'Servers marked “Public” in the table are listed there.'
    : 'No server is listed there: this is the default. An owner can list one on its page.';
  return html`<section class="section" aria-labelledby="registry-heading">
<h2 id="registry-heading">Public registry</h2>
<p class="help">VS Code and other assistants read lists of servers without signing in, so anyone can read this one. ${state} This is the address for the setting of an assistant:</p>
${copyable(plan.registryUrl, 'the address of the registry')}
</section>`;
}
