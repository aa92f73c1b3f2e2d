// Definitions that no administrator has accepted yet: new and changed ones, those that were offered without a review, and rejected ones.
// One, several or all are accepted or rejected, each by the digest that the page showed.

import { createHash } from 'node:crypto';
import { serverRead } from '#admin/servers';
import { isConflict } from '#admin/refusal';
import { toolAccept, toolList, toolReject, type ToolView } from '#admin/tools';
import { listToolNames } from '#db/definitions';
import { findOrganization } from '#db/organizations';
import type { EpochSeconds } from '#model/clock';
import { definitionKinds } from '#model/definitions';
import type { Form } from '#oauth/forms';
import { definitionWarnings, warningContext } from '#tools/warnings';
import type { FieldError } from '#web/forms';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { findActorNames } from './actors.ts';
import { comparison, definitionList } from './compared.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';
import { type Reviewed, type ReviewItem, toolReviewPage } from './tool-review-page.ts';
import { toolPath, toolTabs } from './tool-tabs.ts';
import { nameOf } from './tool-words.ts';

const toManage = 'server.manage';

/** `/servers/{server}/tools/review`. */
export function toolReviewRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/tools/review', toManage, showReview);
  guard.post('/servers/:server/tools/review', toManage, decide);
}

const states = [
  { value: 'waiting', text: 'Waiting' },
  { value: 'offered', text: 'Offered without a review' },
  { value: 'rejected', text: 'Rejected' },
  { value: 'accepted', text: 'Accepted' },
] as const;
type State = (typeof states)[number]['value'];

const shape = { states, columns: ['Name'], usual: { sort: '', order: 'asc' } } as const;

/** The most definitions on a page: comparing is slow, and each definition is long. */
const mostShown = 20;
/** The most definitions that one operation decides about. */
const mostAtOnce = 1000;

const notices: Readonly<Record<string, string>> = {
  accepted: 'Accepted.',
  rejected: 'Rejected. No one can use it until another definition is accepted.',
  some: 'Done. Some have changed since you opened the page, and still wait.',
};

const inState: Readonly<Record<State, (tool: ToolView) => boolean>> = {
  waiting: ({ status }) => status === 'new' || status === 'changed',
  offered: ({ status }) => status === 'offered',
  rejected: ({ status }) => status === 'rejected',
  accepted: ({ status }) => status === 'accepted',
};

async function openReview(
  visit: DashboardVisit,
  request: DashboardRequest,
  { db }: DashboardPorts,
) {
  const { server: name = '' } = request.params;
  const server = await visit.perform(serverRead, { server: name });
  const { items, newTools, changedTools } = await visit.perform(toolList, { server: name });
  const query = listQuery(request, shape);
  const state = states.find(({ value }) => value === query.part.state)?.value ?? 'waiting';
  const filter = query.part.filter.toLowerCase();
  const decidable = items.flatMap((tool) => reviewedOf(tool));
  const found = decidable
    .filter(({ tool }) => inState[state](tool))
    .filter(({ tool }) => nameOf(tool).toLowerCase().includes(filter))
    .sort((one, other) => lastChange(other.tool) - lastChange(one.tool));
  const counts = states.map(({ value, text }) => ({
    value,
    text,
    count: decidable.filter(({ tool }) => inState[value](tool)).length,
  }));
  const page = Math.max(1, Math.floor(Number(queryText(request, 'page')) || 1));
  const shown = found.slice((page - 1) * mostShown, page * mostShown);
  const organization = await findOrganization(db, visit.organization);
  const names = await listToolNames(db, organization?.id ?? '');
  return { server, newTools, changedTools, state, filter, found, counts, page, shown, names };
}

type Review = Awaited<ReturnType<typeof openReview>>;

function reviewedOf(tool: ToolView): (Reviewed & { readonly tool: ToolView })[] {
  const { kind, name, changed, acceptedDigest } = tool;
  const digest = changed?.digest ?? acceptedDigest;
  const known = definitionKinds.find((one) => one === kind);
  return known === undefined || digest === null ? [] : [{ kind: known, name, digest, tool }];
}

function lastChange({ changed, acceptedAt }: ToolView): EpochSeconds {
  return changed?.rejectedAt ?? changed?.changedAt ?? acceptedAt ?? 0;
}

const showReview: PageHandler = async (visit, request, reply, { ports }) => {
  const review = await openReview(visit, request, ports);
  return sendReview(visit, request, reply, review, {
    ports,
    notice: queryChoice(request, 'done', notices),
  });
};

async function sendReview(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: Parameters<PageHandler>[2],
  review: Review,
  {
    ports,
    errors = [],
    notice,
  }: {
    readonly ports: DashboardPorts;
    readonly errors?: readonly FieldError[];
    readonly notice?: string | undefined;
  },
) {
  const { server, state, found, counts, page, shown, names } = review;
  const { organization } = visit;
  const home = `${serverPath(organization, server.name)}/tools`;
  const context = warningContext(server.name, names);
  const actors = shown.flatMap(({ tool }) => [tool.acceptedBy, tool.changed?.rejectedBy ?? null]);
  const nameOfActor = await findActorNames(
    ports.db,
    actors.flatMap((actor) => actor ?? []),
  );
  const items = shown.map((one): ReviewItem => {
    const { kind, name, digest, tool } = one;
    const text = tool.changed?.seen ?? tool.accepted ?? '';
    const called = nameOf(tool);
    const isComparison = tool.changed !== null && tool.accepted !== null;
    return {
      kind,
      name,
      digest,
      text: called,
      href: toolPath(organization, server.name, tool),
      tool,
      warnings: definitionWarnings({ kind, name, text }, context),
      content: isComparison ? comparison(called, tool.accepted ?? '', text) : definitionList(text),
      decided: decisionOn(tool, nameOfActor),
    };
  });
  const href = (to: number) => pageHref(request.url, to);
  const data = {
    heading: visit.server,
    tabs: serverTabs(visit, server.name, 'tools'),
    parts: toolTabs(visit, server.name, 'review'),
    notice,
    errors,
    state,
    counts,
    items,
    total: found.length,
    all: fingerprint(found),
    filter: review.filter,
    newTools: review.newTools,
    changedTools: review.changedTools,
    policy: `${home}#policy`,
    range: `${(page - 1) * mostShown + 1}–${Math.min(page * mostShown, found.length)} of ${found.length}`,
    previous: page > 1 ? href(page - 1) : undefined,
    next: page * mostShown < found.length ? href(page + 1) : undefined,
    path: `${home}/review`,
    action: request.url.replace(/[?&]done=\w+/, ''),
    now: ports.clock.now(),
  };
  const crumbs = serverCrumbs(visit, { text: 'Tools', href: home }, { text: 'Review' });
  return sendDashboardPage(reply, visit, toolReviewPage, data, { crumbs });
}

function pageHref(url: string, page: number): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  searchParams.delete('done');
  searchParams.set('page', String(page));
  return `${pathname}?${searchParams.toString()}`;
}

function decisionOn(
  { acceptedAt, acceptedBy, changed }: ToolView,
  nameOfActor: (actor: string) => string,
): ReviewItem['decided'] {
  if (changed?.rejectedBy && changed.rejectedAt !== null) {
    return { by: nameOfActor(changed.rejectedBy), at: changed.rejectedAt };
  }
  if (acceptedBy === null || acceptedAt === null) return undefined;
  return { by: nameOfActor(acceptedBy), at: acceptedAt };
}

/** Differs if the list contains other definitions than when the page was made. */
function fingerprint(all: readonly Reviewed[]): string {
  const texts = all.map(({ kind, name, digest }) => JSON.stringify([kind, name, digest]));
  return createHash('sha256').update(texts.toSorted().join('\n')).digest('base64url');
}

type Decide = (visit: DashboardVisit, input: Readonly<Record<string, unknown>>) => Promise<number>;

/** Each returns how many definitions were skipped, because they have changed since the page showed them. */
const decisions = new Map<string, Decide>([
  ['accept', async ({ perform }, input) => (await perform(toolAccept, input)).skipped.length],
  ['reject', async ({ perform }, input) => (await perform(toolReject, input)).skipped.length],
]);

const decide: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const { server = '' } = request.params;
  const [verb = '', place] = (sent.get('decide') ?? '').split(':');
  const decideOn = decisions.get(verb);
  const again = async (message: string) =>
    sendReview(visit, request, reply, await openReview(visit, request, ports), {
      ports,
      errors: [{ field: '', message }],
    });
  if (!decideOn) return again('Choose whether to accept or to reject.');
  let chosen = chosenItems(sent, place);
  if (place === 'all') {
    const { found } = await openReview(visit, request, ports);
    if (sent.get('all') !== fingerprint(found)) {
      return again(
        'What waits has changed since you opened the page. Look at it again, then accept or reject all.',
      );
    }
    chosen = found.map(({ kind, name, digest }) => ({ kind, name, digest }));
  }
  if (chosen.length === 0) return again('Choose at least one definition.');
  let skipped = 0;
  try {
    for (let start = 0; start < chosen.length; start += mostAtOnce) {
      const tools = chosen.slice(start, start + mostAtOnce);
      skipped += await decideOn(visit, { server, tools });
    }
  } catch (refusal) {
    if (!isConflict(refusal)) throw refusal;
    return again('These definitions have changed since you opened the page. Look at them again.');
  }
  const done = skipped > 0 ? 'some' : verb === 'accept' ? 'accepted' : 'rejected';
  const { pathname, searchParams } = new URL(request.url, 'http://localhost');
  searchParams.delete('page');
  searchParams.set('done', done);
  return seeOther(reply, `${pathname}?${searchParams.toString()}`);
};

/** The item at `place` on the page; without `place`, all checked items. Each has the digest that the page showed. */
export function chosenItems(sent: Form, place: string | undefined): Reviewed[] {
  return [...sent].flatMap(([field, value]) => {
    const at = /^item\.(\d+)$/.exec(field)?.[1];
    const isChosen =
      at !== undefined && (place === undefined ? sent.has(`chosen.${at}`) : place === at);
    const [kindText, digest = '', ...name] = value.split(':');
    const kind = definitionKinds.find((one) => one === kindText);
    if (!isChosen || !kind) return [];
    try {
      return [{ kind, digest, name: decodeURIComponent(name.join(':')) }];
    } catch {
      return [];
    }
  });
}
