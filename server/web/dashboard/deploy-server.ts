import type { FastifyReply } from 'fastify';

import {
  deploymentPublish,
  deploymentRead,
  deploymentSet,
  deploymentUnpublish,
  type DeploymentView,
} from '#admin/deployment';
import type { FieldChoice } from '#admin/fields';
import { groupList } from '#admin/groups';
import { errorSummary, type FieldError, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Frame, layout, pageHeading, statusNotice, titledCrumb } from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { factList } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import { deployPath, publicBadge } from './deploy.ts';
import { type Entered, formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { counted, questionRoutes, type Question } from './questions.ts';

const installForm = formFor(deploymentSet);
const publicForm = formFor(deploymentPublish);
const path = '/deploy/servers/:server';
const toManage = 'server.manage';
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. Download the files again to install the change on computers.',
  published: 'Published. Anyone can read this listing now.',
  unpublished: 'No longer public. Assistants that read it before may show it for a few minutes.',
};

/** `/deploy/servers/{server}`: on whose computers a server is installed, and what anyone can read of it. */
export function deployServerRoutes(guard: DashboardGuard): void {
  guard.get(path, toManage, showServer);
  guard.post(path, toManage, saveInstall);
  guard.post(`${path}/publish`, 'organization.manage', publish);
  questionRoutes(guard, `${path}/unpublish`, toManage, unpublishing);
}

function pathOf(organization: string, server: string): string {
  return `${deployPath(organization)}/servers/${server}`;
}

function crumbsOf({ organization, server }: DashboardVisit) {
  return [{ text: 'Deploy', href: deployPath(organization) }, titledCrumb(server)];
}

interface Shown {
  readonly install?: Entered;
  readonly words?: Entered;
  readonly errors?: readonly FieldError[];
}

async function sendServer(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { install, words, errors = [] }: Shown,
  ports: DashboardPorts,
): Promise<FastifyReply> {
  const { organization, perform } = visit;
  const { server = '' } = request.params;
  const view = await perform(deploymentRead, { server });
  const { items } = await perform(groupList);
  const present = { install: view.install, groupIds: view.groups.map(({ id }) => id) };
  const data: DeployServerPageData = {
    heading: visit.server,
    home: pathOf(organization, server),
    notice: queryChoice(request, 'done', notices),
    view,
    groups: items.map(({ id, name, members }) => ({
      value: id,
      text: name,
      help: counted(members, 'person', 'people'),
    })),
    install: install ?? installForm.filled(present),
    words: words ?? publicForm.filled(view.publication ?? suggested(visit.server)),
    errors,
    mayPublish: visit.may('organization.manage'),
    now: ports.clock.now(),
  };
  return sendDashboardPage(reply, visit, deployServerPage, data, { crumbs: crumbsOf(visit) });
}

/** The suggested public listing. Its description is empty, because the server's own was written for members. */
function suggested({ title }: Titled): object {
  return { title: title?.slice(0, 100) ?? '', description: '' };
}

const showServer: PageHandler = (visit, request, reply, { ports }) =>
  sendServer(visit, request, reply, {}, ports);

const saveInstall: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const { server = '' } = request.params;
  const refused = await installForm.submit({ sent }, (input) =>
    visit.perform(deploymentSet, { ...input, server }),
  );
  if (!refused) return seeOther(reply, `${pathOf(visit.organization, server)}?done=saved`);
  const { entered: install, errors } = refused;
  return sendServer(visit, request, reply, { install, errors }, ports);
};

const publish: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const { server = '' } = request.params;
  const refused = await publicForm.submit({ sent, conflict: 'description' }, (input) =>
    visit.perform(deploymentPublish, { ...input, server }),
  );
  if (!refused) return seeOther(reply, `${pathOf(visit.organization, server)}?done=published`);
  const { entered: words, errors } = refused;
  return sendServer(visit, request, reply, { words, errors }, ports);
};

const unpublishing: Question = {
  async ask(visit, { params: { server = '' } }) {
    await visit.perform(deploymentRead, { server });
    return {
      heading: `Stop publishing ${titleText(visit.server)}?`,
      consequences: [
        'It disappears from the registry, from the catalogue and from its server card.',
        'VS Code stops running it where a policy allows only servers of this registry.',
        'People who use it otherwise keep their access.',
      ],
      verb: 'Stop publishing',
      cancel: pathOf(visit.organization, server),
      crumbs: crumbsOf(visit),
    };
  },
  async act({ organization, perform }, { params: { server = '' } }) {
    await perform(deploymentUnpublish, { server });
    return `${pathOf(organization, server)}?done=unpublished`;
  },
};

interface DeployServerPageData {
  readonly heading: Titled;
  readonly home: string;
  readonly notice: string | undefined;
  readonly view: DeploymentView;
  readonly groups: readonly FieldChoice[];
  readonly install: Entered;
  readonly words: Entered;
  readonly errors: readonly FieldError[];
  readonly mayPublish: boolean;
  readonly now: number;
}

function deployServerPage(data: DeployServerPageData, frame: Frame): Html {
  const { heading, home, view, groups, install, errors } = data;
  const lead = 'Decides what the files on the Deploy page contain. It does not give anyone access.';
  const options = { focus: false, here: { group: { choices: groups } } };
  const none = html`<p class="help for-groups">There are no groups yet.</p>`;
  const fields = html`${installForm.fields(install, errors, options)}
${groups.length === 0 && none}
<div class="actions"><button class="primary">Save</button></div>`;
  const badges = view.publication ? [publicBadge] : [];
  const content = html`${pageHeading({ heading, lead, badges })}
${statusNotice(data.notice)}
${errorSummary(errors)}
${postForm(frame, { action: home, novalidate: true }, fields)}
${publicSection(data, frame)}`;
  const title = errors.length > 0 ? 'Not saved' : `Deploy ${titleText(heading)}`;
  return layout({ title, width: 'text' }, frame, content);
}

function publicSection(data: DeployServerPageData, frame: Frame): Html {
  const { home, view, words, errors, mayPublish, now } = data;
  const { publication } = view;
  const form = html`${publicForm.fields(words, errors, { focus: false })}
<div class="actions"><button>${publication ? 'Change' : 'Publish'}</button>
${publication && html`<a class="button danger" href="${home}/unpublish" data-question>Stop publishing</a>`}</div>`;
  const facts = publication && [
    { label: 'Name in the registry', text: publication.name ?? '' },
    { label: 'Version', text: publication.version },
    { label: 'Server card', cell: { kind: 'address', text: publication.card ?? '' } as const },
    {
      label: 'Published',
      cell: { kind: 'time', at: publication.publishedAt, otherwise: '' } as const,
    },
  ];
  return html`<section class="section" aria-labelledby="public-heading">
<h2 id="public-heading">Public listing</h2>
<p class="help">${publication ? 'Anyone can read this, without signing in:' : 'Nobody can find this server without signing in. If you publish it, anyone can read its URL and these words, in the registry of the organization and in its server card. Using it still requires access.'}</p>
${facts && factList(facts, now)}
${
  mayPublish
    ? postForm(frame, { action: `${home}/publish`, novalidate: true }, form)
    : html`<p class="help">Only an owner can publish a server.</p>
${publication && html`<p><a class="button danger" href="${home}/unpublish" data-question>Stop publishing</a></p>`}`
}
</section>`;
}
