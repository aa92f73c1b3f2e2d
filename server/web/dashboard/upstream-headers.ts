import type { FastifyReply } from 'fastify';
import { isConflict, notFound } from '#admin/refusal';
import {
  headerForgetPrevious,
  headerList,
  headerRemove,
  headerRestore,
  headerSet,
  type HeadersView,
} from '#admin/upstream-headers';
import { type FieldError, hiddenField, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import type { Frame } from '#web/layout';
import { seeOther } from '#web/page-request';
import { relativeTime } from '#web/tables';
import { type Entered, formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, FormHandler } from './guard.ts';
import type { DashboardOptions } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';
import { serverCrumbs, serverOf, serverPath } from './server-tabs.ts';

const headerPath = '/servers/:server/upstream/headers/:header';
const toManage = 'server.manage';
export const headerForm = formFor(headerSet);
/** The server was changed after the form was rendered. */
const stale = {
  field: '',
  message:
    'Another person changed this server while you edited it. Nothing was saved. Check the headers below, then enter the value again.',
};

/** The values of the authorization or header form, entered or stored, and messages about them. */
export interface Shown {
  readonly entered?: Entered;
  readonly header?: { readonly entered: Entered; readonly revision?: string };
  readonly errors: readonly FieldError[];
  /** Default 422 if there are errors. */
  readonly status?: number;
}

/** The revision of the server that a form was filled from. */
function revisionIn(text: string): { revision?: number } {
  return text === '' ? {} : { revision: Number(text) };
}

/** The data of the page that the section uses. */
export interface HeadersPageData {
  /** The path of the page. */
  readonly action: string;
  readonly headers: FixedHeadersData;
  readonly now: number;
  readonly errors: readonly FieldError[];
}

export interface FixedHeadersData extends Omit<HeadersView, 'server'> {
  /** The origin that they are sent to. */
  readonly origin: string;
  readonly action: string;
  readonly entered: Entered;
  /** The revision of the server that the form was filled from. */
  readonly typedRevision: string;
  /** Whether a value is being replaced. */
  readonly isReplacing: boolean;
}

/** The fixed headers of requests to the upstream, and a form that sets one. */
export function headersSection(data: HeadersPageData, frame: Frame): Html {
  const { headers, errors } = data;
  const { items, origin, action, entered, typedRevision, isReplacing } = headers;
  const help =
    'Enter a new header, or a header from the list above to replace its value. Example: X-Api-Key';
  const options = {
    focus: isReplacing && 'headerValue',
    here: { headerName: items.length > 0 ? { help } : {} },
  };
  const fields = html`${hiddenField('revision', typedRevision)}
${headerForm.fields(entered, errors, options)}
<div class="actions"><button>${isReplacing ? 'Replace value' : 'Save header'}</button></div>`;
  return html`<section class="section" id="headers" aria-labelledby="headers-heading">
<h2 id="headers-heading">Fixed headers</h2>
<p class="help">Sent with every request to <span class="word">${origin}</span>, and to no other origin. Values are stored encrypted. You won’t see them again.</p>
${
  items.length > 0 &&
  html`<ul class="rows">
${items.map((item) => headerRows(item, data, frame))}
</ul>`
}
${postForm(frame, { action, novalidate: true }, fields)}
</section>`;
}

function headerRows(
  { name, hint, setAt, previous }: FixedHeadersData['items'][number],
  data: HeadersPageData,
  frame: Frame,
): Html {
  const { headers, action, now } = data;
  const path = `${headers.action}/${encodeURIComponent(name)}`;
  return html`<li>
<div>
<code>${name}</code>
<p class="help">
${hint ? html`Value <code>${hint}</code>, set` : 'Set'} ${relativeTime(setAt, now)}
</p>
</div>
<div class="actions"><a class="button" href="${action}?header=${encodeURIComponent(name)}" aria-label="Replace ${name}">Replace</a> <a class="button danger" href="${path}/remove" data-question aria-label="Remove ${name}">Remove</a></div>
</li>
${previous && previousValueRow(name, path, previous, data, frame)} `;
}

/** The previous value of a header, which is still used if the upstream refuses the new one. */
function previousValueRow(
  name: string,
  path: string,
  { hint, until }: NonNullable<FixedHeadersData['items'][number]['previous']>,
  { headers, now }: HeadersPageData,
  frame: Frame,
): Html {
  const { refusedAt, revision } = headers;
  const restore = html`${hiddenField('revision', revision)}<button aria-label="Use again the previous value of ${name}">Use again</button>`;
  const refusal = refusedAt
    ? html`The new value was last refused ${relativeTime(refusedAt, now)}.`
    : 'The new value has not been refused.';
  return html`<li>
<div>
Previous value of
<code>${name}</code>${refusedAt !== null && html` <span class="badge care">still needed</span>`}
<p class="help">
${hint && html`Value <code>${hint}</code>. `}Used if the MCP server refuses the new value
with 401. Deleted ${relativeTime(until, now)}. ${refusal}
</p>
</div>
<div class="actions">
${postForm(frame, { action: `${path}/restore` }, restore)}
<a class="button danger" href="${path}/forget" data-question aria-label="Delete the previous value of ${name}">Delete</a>
</div>
</li>`;
}

/** Sends the page of a server that contains its headers, with the entered values. */
type SendAccess = (
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  shown: Shown,
  options: DashboardOptions,
) => Promise<FastifyReply>;

/** Setting, restoring, removing and forgetting fixed headers. */
export function headerRoutes(guard: DashboardGuard, sendAccess: SendAccess): void {
  guard.post('/servers/:server/upstream/headers', toManage, setHeader(sendAccess));
  guard.post(`${headerPath}/restore`, toManage, restoreHeader(sendAccess));
  questionRoutes(guard, `${headerPath}/remove`, toManage, removal);
  questionRoutes(guard, `${headerPath}/forget`, toManage, forgettingPrevious);
}

const setHeader =
  (sendAccess: SendAccess): FormHandler =>
  async (visit, sent, request, reply, options) => {
    const { organization } = visit;
    const { server = '' } = request.params;
    const entered = headerForm.read(sent);
    const revision = sent.get('revision') ?? '';
    const show = (shown: Shown) => sendAccess(visit, request, reply, shown, options);
    try {
      const change = { ...headerForm.inputOf(entered), ...revisionIn(revision) };
      await visit.perform(headerSet, { ...change, server });
    } catch (refusal) {
      const now = await visit.perform(headerList, { server });
      if (isConflict(refusal) && revision !== String(now.revision)) {
        return show({ header: { entered }, errors: [stale], status: 409 });
      }
      const errors = headerForm.errorsOf(refusal, entered, 'headerName');
      return show({ header: { entered, revision }, errors });
    }
    return seeOther(reply, `${serverPath(organization, server)}/upstream?done=header`);
  };

const restoreHeader =
  (sendAccess: SendAccess): FormHandler =>
  async (visit, sent, request, reply, options) => {
    const { organization } = visit;
    const { server = '', header = '' } = request.params;
    const input = { server, header, ...revisionIn(sent.get('revision') ?? '') };
    try {
      await visit.perform(headerRestore, input);
    } catch (refusal) {
      if (!isConflict(refusal)) throw refusal;
      return sendAccess(visit, request, reply, { errors: [stale], status: 409 }, options);
    }
    return seeOther(reply, `${serverPath(organization, server)}/upstream?done=restored`);
  };

/** The header that the path names. @throws {AdministrationRefusal} `not_found` */
async function headerOf(visit: DashboardVisit, request: DashboardRequest) {
  const { organization } = visit;
  const { name: server } = await serverOf(visit, request);
  const { items } = await visit.perform(headerList, { server });
  const header = items.find(({ name }) => name === request.params['header']);
  if (!header) throw notFound('header');
  return { header, cancel: `${serverPath(organization, server)}/upstream` };
}

const removal: Question = {
  async ask(visit, request) {
    const { header, cancel } = await headerOf(visit, request);
    return {
      heading: `Remove the header ${header.name}?`,
      consequences: [
        'Latchkey no longer sends the header, starting with the next call.',
        'Its values are deleted. This cannot be undone.',
      ],
      verb: 'Remove header',
      cancel,
      crumbs: serverCrumbs(visit, { text: 'Remove' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '', header = '' } = params;
    await perform(headerRemove, { server, header });
    return `${serverPath(organization, server)}/upstream?done=removed`;
  },
};

const forgettingPrevious: Question = {
  async ask(visit, request) {
    const { header, cancel } = await headerOf(visit, request);
    if (!header.previous) throw notFound('previous value');
    return {
      heading: `Delete the previous value of ${header.name}?`,
      consequences: [
        'Calls fail if the MCP server refuses the new value.',
        'This cannot be undone.',
      ],
      verb: 'Delete previous value',
      cancel,
      crumbs: serverCrumbs(visit, { text: 'Delete' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '', header = '' } = params;
    await perform(headerForgetPrevious, { server, header });
    return `${serverPath(organization, server)}/upstream?done=forgotten`;
  },
};
