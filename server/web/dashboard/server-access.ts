import type { FastifyReply } from 'fastify';
import type { FieldChoice } from '#admin/fields';
import { groupList } from '#admin/groups';
import { serverGroupsPreview, serverGroupsRead, serverGroupsSet } from '#admin/server-access';
import type { CountedPeople } from '#db/server-access';
import { errorSummary, type FieldError, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryText, seeOther } from '#web/page-request';
import { type Titled, titleText } from '#web/titles';
import { type Entered, formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import { counted, questionRoutes, type Question } from './questions.ts';
import { serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';

const accessForm = formFor(serverGroupsSet);
const toRead = 'people.read';
const toManage = 'server.manage';

/** `/servers/{server}/access`: who may use a server. A change by which anyone gains or loses access is confirmed first. */
export function serverAccessRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/access', toRead, showAccess);
  guard.post('/servers/:server/access', toManage, saveAccess);
  questionRoutes(guard, '/servers/:server/access/review', toManage, review);
}

async function sendAccess(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { entered, errors = [] }: { entered?: Entered; errors?: readonly FieldError[] },
) {
  const { organization } = visit;
  const { server = '' } = request.params;
  const rule = await visit.perform(serverGroupsRead, { server });
  const { items } = await visit.perform(groupList);
  const present = {
    access: rule.access,
    groupIds: rule.groups.map(({ id }) => id),
    accessRequests: rule.accessRequests,
  };
  const data = {
    heading: visit.server,
    tabs: serverTabs(visit, server, 'access'),
    notice: queryText(request, 'done') === 'saved' ? 'Saved.' : undefined,
    action: `${serverPath(organization, server)}/access`,
    groupsPage: `${dashboardPath(organization)}/groups`,
    groups: items.map(({ id, name, members }) => ({
      value: id,
      text: name,
      help: members === 0 ? 'No members' : counted(members, 'person', 'people'),
    })),
    entered: entered ?? accessForm.filled(present),
    errors,
  };
  const crumbs = serverCrumbs(visit, { text: 'Access' });
  return sendDashboardPage(reply, visit, serverAccessPage, data, { crumbs });
}

// When the person comes back from the review, the page shows their choice, which is in the URL.
const showAccess: PageHandler = (visit, request, reply) => {
  const { access, groupIds, accessRequests } = chosen(visit, request);
  const entered =
    access === null
      ? {}
      : { entered: { access, group: groupIds, [requestsBox]: accessRequests ?? false } };
  return sendAccess(visit, request, reply, entered);
};

const saveAccess: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { server = '' } = request.params;
  const home = `${serverPath(organization, server)}/access`;
  const entered = accessForm.read(sent);
  try {
    const input = { ...accessForm.inputOf(entered), server };
    const { gains, loses } = await visit.perform(serverGroupsPreview, previewed(input));
    if (gains.count + loses.count > 0) return seeOther(reply, `${home}/review?${query(entered)}`);
    await visit.perform(serverGroupsSet, input);
  } catch (refusal) {
    const errors = accessForm.errorsOf(refusal, entered);
    return sendAccess(visit, request, reply, { entered, errors });
  }
  return seeOther(reply, `${home}?done=saved`);
};

/** Shows who gains and who loses access by a change, before it is made. */
const review: Question = {
  async ask(visit, request) {
    await serverOf(visit, request);
    const input = chosen(visit, request);
    const preview = await visit.perform(serverGroupsPreview, previewed(input));
    const { searchParams } = new URL(request.url, 'http://localhost');
    const isForEveryone = input.access === 'everyone';
    const title = titleText(visit.server);
    const home = `${serverPath(visit.organization, input.server)}/access`;
    return {
      heading: isForEveryone ? `Open ${title} to everyone?` : `Change who can use ${title}?`,
      consequences: consequencesOf(preview, isForEveryone),
      verb: isForEveryone ? 'Open to everyone' : 'Change access',
      cancel: `${home}?${searchParams.toString()}`,
      crumbs: serverCrumbs(visit, { text: 'Access', href: home }, { text: 'Review' }),
    };
  },
  async act(visit, request) {
    const input = chosen(visit, request);
    await visit.perform(serverGroupsSet, input);
    return `${serverPath(visit.organization, input.server)}/access?done=saved`;
  },
};

/** The choice that the query of a link contains. */
function chosen({ organization }: DashboardVisit, request: DashboardRequest) {
  const { searchParams } = new URL(request.url, 'http://localhost');
  const { server = '' } = request.params;
  const access = searchParams.get('access');
  const asks = searchParams.get('ask');
  return {
    organization,
    server,
    access,
    groupIds: searchParams.getAll('group'),
    ...(asks !== null && { accessRequests: asks === 'on' }),
  };
}

/** The name of the checkbox that lets people ask for access. */
const requestsBox = 'ask.accessRequests';

/** The input without `accessRequests`, which neither gives nor takes access. */
function previewed(input: Readonly<Record<string, unknown>>) {
  const { accessRequests: _, ...choice } = input;
  return choice;
}

/** The entered values as a query. */
function query({ access, group, [requestsBox]: asks }: Entered): string {
  const ids = access === 'groups' && Array.isArray(group) ? group.map(String) : [];
  const choice = new URLSearchParams({ access: String(access) });
  for (const id of ids) choice.append('group', id);
  if (access === 'groups') choice.set('ask', asks === true ? 'on' : 'off');
  return choice.toString();
}

interface AccessPreview {
  readonly gains: CountedPeople;
  readonly loses: CountedPeople;
  readonly allowed: number;
}

function consequencesOf({ gains, loses, allowed }: AccessPreview, isForEveryone: boolean) {
  const lose = `${loses.count === 1 ? 'loses' : 'lose'} access immediately, also through applications`;
  const gain = `${gains.count === 1 ? 'gains' : 'gain'} access`;
  return [
    ...(allowed === 0
      ? ['No one will be able to use this server: the groups have no members.']
      : []),
    ...(loses.count > 0
      ? [`${counted(loses.count, 'person', 'people')} ${lose}: ${named(loses)}.`]
      : []),
    ...(gains.count > 0
      ? [`${counted(gains.count, 'person', 'people')} ${gain}: ${named(gains)}.`]
      : []),
    ...(isForEveryone ? ['People who join the organization later can use it too.'] : []),
    'API keys and service clients are not affected.',
  ];
}

const mostNamed = 10;

function named({ count, people }: CountedPeople): string {
  const shown = people.slice(0, mostNamed).map(({ email }) => email);
  const more = count - shown.length;
  return [...shown, ...(more > 0 ? [`${more} more`] : [])].join(', ');
}

/** The groups of an organization, and who may use a server. */
interface ServerAccessPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly action: string;
  /** Where groups are created. */
  readonly groupsPage: string;
  readonly groups: readonly FieldChoice[];
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
}

/** Who may use a server: everyone, or some groups. */
function serverAccessPage(data: ServerAccessPageData, frame: Frame): Html {
  const { heading, tabs, action, groups, entered, errors } = data;
  const lead =
    'API keys and service clients act for no person, so this choice does not affect them.';
  const options = { focus: false, here: { group: { choices: groups } } };
  const none = html`<p class="help for-groups">There are no groups yet. <a href="${data.groupsPage}">Create a group</a> first.</p>`;
  const fields = html`${accessForm.fields(entered, errors, options)}
${groups.length === 0 && none}
<div class="actions"><button class="primary">Save</button></div>`;
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${errorSummary(errors)}
${statusNotice(data.notice)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  const title = errors.length > 0 ? 'Not changed' : `Access of ${titleText(heading)}`;
  return layout({ title, width: 'text' }, frame, content);
}
