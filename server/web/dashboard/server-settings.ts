import type { FastifyReply } from 'fastify';
import { agentList } from '#admin/agents';
import { serverContents, serverDeleteContents, serverSetContents } from '#admin/call-contents';
import { deploymentRead, installedForWhom } from '#admin/deployment';
import { checkedInput, isConflict } from '#admin/refusal';
import {
  serverCreate,
  serverDelete,
  serverDisable,
  serverEnable,
  type ServerInUse,
  serverUpdate,
  type ServerView,
} from '#admin/servers';
import { fewNames } from '#model/few-names';
import type { FieldError } from '#web/forms';
import { dashboardPath } from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { titleWithName } from '#web/titles';
import {
  type ConnectionTest,
  connectionTest,
  privateNetworkRefusal,
  testUrl,
  testSaved,
} from './connection-test.ts';
import { formFor } from './forms.ts';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { queryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { counted, questionRoutes, type Question } from './questions.ts';
import {
  newServer,
  serverAsTyped,
  serverErrors,
  serverFormPage,
  serverInput,
  typedServer,
  type TypedServer,
} from './server-form.ts';
import { serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';

/** `/new-server`, and `/servers/{server}/settings`, with `/disable`, `/enable` and `/delete`. */
export function serverSettingsRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const agentsFor = activeAgents(ports);
  guard.get('/new-server', toManage, showNewServer(agentsFor));
  guard.post('/new-server', toManage, createServer(agentsFor));
  guard.get('/servers/:server/settings', toManage, showSettings(agentsFor));
  guard.post('/servers/:server/settings', toManage, saveSettings(agentsFor));
  formRoutes(guard, '/servers/:server/contents', 'organization.manage', contentsForm);
  questionRoutes(
    guard,
    '/servers/:server/contents/delete',
    'organization.manage',
    contentsDeletion,
  );
  questionRoutes(guard, '/servers/:server/disable', toManage, disabling);
  questionRoutes(guard, '/servers/:server/enable', toManage, enabling);
  questionRoutes(guard, '/servers/:server/delete', toManage, deletion);
}

const toManage = 'server.manage';

/** Sends the form of a new server. */
async function sendNewServer(
  visit: DashboardVisit,
  reply: FastifyReply,
  { typed, errors = [], test, status }: Shown,
  agentsFor: AgentsFor,
) {
  const { organization } = visit;
  const home = dashboardPath(organization);
  const data = {
    isNew: true,
    heading: 'Create server',
    tabs: undefined,
    notice: undefined,
    action: `${home}/new-server`,
    cancel: `${home}/servers`,
    typed,
    agents: await agentsFor(visit),
    newAgent: `${home}/new-agent`,
    newCollection: `${home}/new-collection`,
    errors,
    test,
    dangers: [],
  };
  const crumbs = [{ text: 'Servers', href: `${home}/servers` }, { text: 'Create server' }];
  return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
}

const showNewServer =
  (agentsFor: AgentsFor): PageHandler =>
  (visit, request, reply) => {
    const typed = newServer((name) => queryText(request, name));
    return sendNewServer(visit, reply, { typed }, agentsFor);
  };

const createServer =
  (agentsFor: AgentsFor): FormHandler =>
  async (visit, sent, _request, reply, { ports }) => {
    const typed = typedServer(sent, true);
    const { organization } = visit;
    const again = (shown: Omit<Shown, 'typed'>) =>
      sendNewServer(visit, reply, { typed, ...shown }, agentsFor);
    try {
      const input = { ...serverInput(typed), organization };
      const { name: wantedName, upstream } = checkedInput(serverCreate.input, input);
      const url = 'url' in upstream ? upstream.url : undefined;
      const found = url === undefined ? undefined : await testUrl(url, ports);
      const test = found && connectionTest(found, { organization, name: wantedName, url });
      if (url !== undefined && ports.upstreamSetup.isForbidden(new URL(url))) {
        const errors = serverErrors(privateNetworkRefusal(), typed, 'name');
        return await again({ errors, test });
      }
      const step = sent.get('step');
      const isFailed = found && !['connected', 'sign-in-required'].includes(found.outcome);
      if (step === 'test' || (isFailed && step !== 'anyway')) {
        return await again({ test, status: step === 'test' ? 200 : 422 });
      }
      const { name, id } = await visit.perform(serverCreate, input);
      if (found) await ports.learnHealth(id, found);
      const page = found?.outcome === 'sign-in-required' ? '/upstream' : '';
      return seeOther(reply, `${serverPath(organization, name)}${page}?done=created`);
    } catch (refusal) {
      return again({ errors: serverErrors(refusal, typed, 'name') });
    }
  };

const notices: Readonly<Record<string, string>> = {
  saved: 'Saved.',
  deleted: 'The stored arguments and results are deleted.',
  'without-headers':
    'Saved. The fixed headers of the previous upstream were removed. Enter new ones under Upstream authentication if they are needed.',
};

const stale = {
  field: '',
  message:
    'Another person changed this server while you edited it. Nothing was saved. Save again to overwrite their changes, or reopen the settings to see them.',
};

/** The form values, entered or stored, and messages about them. */
interface Shown {
  readonly typed: TypedServer;
  readonly errors?: readonly FieldError[];
  readonly notice?: string | undefined;
  readonly test?: ConnectionTest | undefined;
  /** Default 422 if there are errors. */
  readonly status?: number;
}

async function sendSettings(
  visit: DashboardVisit,
  reply: FastifyReply,
  { name, disabledAt }: ServerView,
  { typed, errors = [], notice, test, status }: Shown,
  agentsFor: AgentsFor,
) {
  const { organization } = visit;
  const home = serverPath(organization, name);
  const isDisabled = disabledAt !== null;
  const data = {
    typed,
    errors,
    notice,
    isNew: false,
    heading: visit.server,
    tabs: serverTabs(visit, name, 'settings'),
    action: `${home}/settings`,
    cancel: home,
    agents: await agentsFor(visit),
    newAgent: `${dashboardPath(organization)}/new-agent`,
    test,
    dangers: [
      ...(visit.may('organization.manage')
        ? [
            {
              text: 'Arguments and results',
              help: 'Choose whether the arguments and results of calls are stored.',
              href: `${home}/contents`,
              isHarmless: true,
            },
            {
              text: 'Delete arguments and results',
              help: 'Delete the arguments and results stored so far. This cannot be undone.',
              href: `${home}/contents/delete`,
              isHarmless: false,
            },
          ]
        : []),
      isDisabled
        ? {
            text: 'Enable',
            help: 'Accept calls again, with the same clients and keys.',
            href: `${home}/enable`,
            isHarmless: true,
          }
        : {
            text: 'Disable',
            help: 'Refuse all calls until the server is enabled again.',
            href: `${home}/disable`,
            isHarmless: false,
          },
      {
        text: 'Delete',
        help: 'Delete the server with its clients and keys. This cannot be undone.',
        href: `${home}/delete`,
        isHarmless: false,
      },
    ],
  };
  const crumbs = serverCrumbs(visit, { text: 'Settings' });
  return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
}

const showSettings =
  (agentsFor: AgentsFor): PageHandler =>
  async (visit, request, reply, { ports }) => {
    const server = await serverOf(visit, request);
    const notice = queryChoice(request, 'done', notices);
    const home = serverPath(visit.organization, server.name);
    const test = notice === undefined ? undefined : await testSaved(visit, home, ports);
    const typed = serverAsTyped(server);
    return sendSettings(visit, reply, server, { typed, notice, test }, agentsFor);
  };

const saveSettings =
  (agentsFor: AgentsFor): FormHandler =>
  async (visit, sent, request, reply) => {
    const server = await serverOf(visit, request);
    const { organization } = visit;
    const typed = typedServer(sent, false);
    let done = 'saved';
    try {
      const change = { ...serverInput(typed), server: server.name };
      const { removedHeaders } = await visit.perform(serverUpdate, change);
      if (removedHeaders.length > 0) done = 'without-headers';
    } catch (refusal) {
      const now = await serverOf(visit, request);
      const revision = String(now.revision);
      const isStale = isConflict(refusal) && typed.revision !== revision;
      // Saving overwrites another change only after the page has reported it.
      const shown = isStale
        ? { typed: { ...typed, revision }, errors: [stale], status: 409 }
        : { typed, errors: serverErrors(refusal, typed, '') };
      return sendSettings(visit, reply, now, shown, agentsFor);
    }
    return seeOther(reply, `${serverPath(organization, server.name)}/settings?done=${done}`);
  };

const contentsForm: FormRoutes = {
  form: formFor(serverSetContents),
  async page(visit, request) {
    const { name } = await serverOf(visit, request);
    const home = serverPath(visit.organization, name);
    return {
      heading: 'Arguments and results',
      lead: 'They are stored encrypted and without known secrets. Only people with the Auditor right can read them, and each reading is an entry in the audit log. People who use the server are told. If you turn this off, what is already stored stays until it expires.',
      refused: 'Not saved yet',
      verb: 'Save',
      cancel: `${home}/settings`,
      record: await visit.perform(serverContents, { server: name }),
      shownFields: { focus: false },
      crumbs: serverCrumbs(visit, { text: 'Arguments and results' }),
    };
  },
  async act({ organization, perform }, input, { params }, reply) {
    const { server = '' } = params;
    await perform(serverSetContents, { ...input, server });
    return seeOther(reply, `${serverPath(organization, server)}/settings?done=saved`);
  },
};

const contentsDeletion: Question = {
  async ask(visit, request) {
    const { name } = await serverOf(visit, request);
    return {
      heading: `Delete the stored arguments and results of ${titleWithName(visit.server)}?`,
      consequences: [
        'No one can read them from now on. They are removed within an hour. This cannot be undone.',
        'The calls themselves stay under Activity.',
      ],
      verb: 'Delete arguments and results',
      cancel: `${serverPath(visit.organization, name)}/settings`,
      crumbs: serverCrumbs(visit, { text: 'Delete arguments and results' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '' } = params;
    await perform(serverDeleteContents, { server });
    return `${serverPath(organization, server)}/settings?done=deleted`;
  },
};

const disabling: Question = {
  async ask(visit, request) {
    const server = await serverOf(visit, request);
    const home = serverPath(visit.organization, server.name);
    return {
      heading: `Disable the server ${titleWithName(visit.server)}?`,
      consequences: [
        ...lostWith(server),
        'Calls in progress end. Everything works again when you enable the server.',
      ],
      verb: 'Disable server',
      cancel: `${home}/settings`,
      crumbs: serverCrumbs(visit, { text: 'Disable' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '' } = params;
    await perform(serverDisable, { server });
    return `${serverPath(organization, server)}?done=disabled`;
  },
};

const enabling: Question = {
  async ask(visit, request) {
    const { name } = await serverOf(visit, request);
    return {
      heading: `Enable the server ${titleWithName(visit.server)}?`,
      consequences: ['Its active clients, keys and consents work again immediately.'],
      verb: 'Enable server',
      isHarmless: true,
      cancel: `${serverPath(visit.organization, name)}/settings`,
      crumbs: serverCrumbs(visit, { text: 'Enable' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '' } = params;
    await perform(serverEnable, { server });
    return `${serverPath(organization, server)}?done=enabled`;
  },
};

const deletion: Question = {
  async ask(visit, request) {
    const server = await serverOf(visit, request);
    const { name } = server;
    const deployment = await visit.perform(deploymentRead, { server: name });
    const those = installedForWhom(deployment);
    return {
      heading: `Delete the server ${titleWithName(visit.server)}?`,
      consequences: [
        ...lostWith(server),
        ...(those === undefined
          ? []
          : [
              `Deployment files install it for ${those}. Its entry stays on their computers until you distribute new files.`,
            ]),
        ...(deployment.publication ? ['Its public entry in the MCP registry disappears.'] : []),
        'This cannot be undone. The audit log keeps its entries.',
      ],
      verb: 'Delete server',
      typed: { label: `Type ${name} to confirm`, expected: name, error: undefined },
      cancel: `${serverPath(visit.organization, name)}/settings`,
      crumbs: serverCrumbs(visit, { text: 'Delete' }),
    };
  },
  async act({ organization, perform }, { params }) {
    await perform(serverDelete, { server: params['server'] ?? '' });
    return `${dashboardPath(organization)}/servers?done=deleted`;
  },
};

const aPage = 200;
/** A longer list would be of no use. */
const mostPages = 10;

type AgentsFor = ReturnType<typeof activeAgents>;

/** The names of the agents that a server can be bound to, sorted. */
function activeAgents(ports: DashboardPorts) {
  const cached = queryCache(ports.changes);

  return (visit: DashboardVisit): Promise<readonly string[]> => {
    const { organization, role } = visit;
    return cached([organization, role], async () => {
      const wanted = { organization, status: 'active', sort: 'name', limit: aPage };
      const names: string[] = [];
      for (let page = 1; page <= mostPages; page += 1) {
        const { items, total } = await visit.perform(agentList, { ...wanted, page });
        names.push(...items.map(({ name }) => name));
        if (names.length >= total) break;
      }
      return names;
    });
  };
}

/** Says what stops working together with a server, with counts and names, one sentence each. */
export function lostWith({
  activeClients,
  activeKeys,
  activeGrants,
  collections,
}: Pick<
  ServerInUse,
  'activeClients' | 'activeKeys' | 'activeGrants' | 'collections'
>): readonly string[] {
  const lines = [
    activeClients + activeKeys + activeGrants === 0
      ? 'It has no active OAuth clients, API keys or grants.'
      : [],
    activeClients > 0
      ? `${counted(activeClients, 'OAuth client uses', 'OAuth clients use')} it; ${losing(activeClients)}.`
      : [],
    activeKeys > 0
      ? `${counted(activeKeys, 'API key grants', 'API keys grant')} access to it; ${stopping(activeKeys)}.`
      : [],
    activeGrants > 0
      ? `${counted(activeGrants, 'application has', 'applications have')} access on behalf of people; ${losing(activeGrants)}.`
      : [],
    collections.length > 0
      ? `Its tools, prompts and resources disappear from the ${collections.length === 1 ? 'collection' : 'collections'} ${fewNames(collections)} immediately.`
      : [],
  ];
  return lines.flat();
}

function losing(count: number): string {
  return count === 1 ? 'it loses access immediately' : 'they lose access immediately';
}

function stopping(count: number): string {
  return count === 1 ? 'it stops working immediately' : 'they stop working immediately';
}
