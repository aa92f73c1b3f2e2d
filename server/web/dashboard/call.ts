import { failureOf, isOwnCall } from '#activity/sentences';
import { accountWords, endWords } from '#activity/call-words';
import type { FastifyReply } from 'fastify';
import type { z } from 'zod';
import { callContent } from '#admin/call-contents';
import { findReadableCall } from '#admin/calls';
import { notFound } from '#admin/refusal';
import { findDeviceNames } from '#db/devices';
import { listAuditEvents } from '#db/audit';
import { isAuditor } from '#db/call-contents';
import { writtenAtMs } from '#db/calls';
import { findOrganization } from '#db/organizations';
import { findServer, findServerTitles } from '#db/servers';
import type { Db } from '#db/transaction';
import { accountOwnerOf, type CallRecord, isPseudonym } from '#model/calls';
import { postForm } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import {
  dashboardPath,
  type Frame,
  layout,
  type Link,
  pageHeading,
  statusNotice,
} from '#web/layout';
import { queryText } from '#web/page-request';
import { msWords } from '#web/plots';
import { dataTable, type Fact, factList, type Table, timeCell } from '#web/tables';
import { isoTime, localTime, zoneNote } from '#web/times';
import { auditSentencesOf } from './audit.ts';
import {
  activityPath,
  callerName,
  callPath as callPathOf,
  callsFor,
  callSentence,
  callTable,
  credentialWords,
  daySeconds,
  endBadge,
  failureSentence,
  withYou,
} from './calls.ts';
import type { DashboardRequest, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { ownerlessPath } from './ownerless.ts';
import { leaverOf, pseudonymDone, pseudonymVerb } from './pseudonym-question.ts';
import { serverPath } from './server-tabs.ts';
import { checkPath } from './tool-tabs.ts';

const mostRounds = 20;
/** The calls of one request to a collection begin at most `longestMs` apart, and are searched for among `mostBeside` calls of their caller. */
const longestMs = 5000;
const mostBeside = 100;
/** The caller's other calls are shown for this long before and after a call. */
const aroundSeconds = 600;

/** One call: everything that is known about it. */
export const showCall: PageHandler = (visit, request, reply, { ports }) =>
  sendCall(visit, request, reply, { ports });

/** One call with its arguments and its result. Each reading is an entry in the audit log. */
export const showContents: FormHandler = async (visit, _form, request, reply, { ports }) => {
  const { id } = await findVisible(visit, request.params['callId'] ?? '', ports.db);
  const contents = await visit.perform(callContent, { callId: id });
  return sendCall(visit, request, reply, { ports, contents });
};

type Contents = z.output<typeof callContent.output>;

interface CallReading {
  readonly ports: DashboardPorts;
  /** The arguments and the result, once the reader asked for them. */
  readonly contents?: Contents;
}

async function sendCall(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  read: CallReading,
) {
  const data = await callData(visit, request, read);
  const activity = { text: 'Activity', href: activityPath(visit.organization) };
  void reply.header('Cache-Control', 'no-store');
  const crumbs = [activity, { text: data.heading }];
  return sendDashboardPage(reply, visit, callPage, data, { crumbs });
}

async function callData(
  visit: DashboardVisit,
  request: DashboardRequest,
  { ports, contents }: CallReading,
) {
  const { organization } = visit;
  const call = await findVisible(visit, request.params['callId'] ?? '', ports.db);
  const { endpoint, target } = call;
  const names = [target.name, endpoint.name];
  const servers = await findServerTitles(ports.db, organization, names);
  const [served, called] = await Promise.all(
    names.map((name) => findServer(ports.db, organization, name)),
  );
  // A later server may have the name of a deleted one.
  const homes = {
    server: served?.target.id === target.id ? serverPath(organization, target.name) : undefined,
    endpoint: called?.id === endpoint.id ? serverPath(organization, endpoint.name) : undefined,
  };
  const devices = await findDeviceNames(
    ports.db,
    call.deviceId === undefined ? [] : [call.deviceId],
  );
  const rounds = await roundsOf(visit, call, ports);
  const parts = await partsOf(visit, call, ports);
  const leaver = await leaverOf(call, ports.db);
  const show = withYou(visit.person);
  return {
    call,
    heading: displayName(call.subject ?? call.method ?? 'Call', 80),
    sentence: callSentence(call, servers, show, devices),
    failure: failureSentence(call, visit.person),
    remedy: failureOf(call, visit.person.user.id)?.remedy,
    fix: fixOf(visit, call, homes),
    facts: factsOf(visit, call, { homes, isLeaver: leaver !== undefined, devices }),
    rounds:
      rounds.length > 1
        ? await callTable(visit, rounds, { caption: 'Each round', empty: '', show }, ports)
        : undefined,
    parts:
      parts.length > 0
        ? await callTable(visit, parts, { caption: 'The same request', empty: '', show }, ports)
        : undefined,
    pseudonymize:
      leaver && visit.may('owners.manage')
        ? { text: pseudonymVerb, href: `${callPathOf(organization, call)}/pseudonymize` }
        : undefined,
    notice: queryText(request, 'done') === 'pseudonymize' ? pseudonymDone : undefined,
    audit: visit.may('audit.read') ? await auditTable(visit, call, ports) : undefined,
    around: aroundOf(visit, call),
    contents,
    // The form that shows the arguments and the result; only for auditors.
    read: (await isAuditor(ports.db, call.organizationId, visit.person.user.id))
      ? callPathOf(organization, call)
      : undefined,
    now: ports.clock.now(),
  };
}

type CallPageData = Awaited<ReturnType<typeof callData>>;

/** The call with this id, if it is one of this organization that this person may see. */
async function findVisible(visit: DashboardVisit, id: string, db: Db): Promise<CallRecord> {
  const organization = await findOrganization(db, visit.organization);
  if (!organization) throw notFound('organization');
  return findReadableCall(id, { ...visit, organization }, db);
}

/** The rows of a call that needed several requests, newest first. */
async function roundsOf(visit: DashboardVisit, call: CallRecord, ports: DashboardPorts) {
  const { callId, credential, endpoint } = call;
  const atMs = writtenAtMs(call.id);
  const filter = {
    callId,
    credential: credential.id,
    endpoint: endpoint.id,
    fromMs: atMs - daySeconds * 1000,
    untilMs: atMs + daySeconds * 1000,
  };
  const { calls } = await callsFor(visit, { filter, limit: mostRounds, budgetMs: 500 }, ports);
  return calls;
}

/** The other calls of the same request. A refusal by a collection's member is recorded there and at the collection, with one request id. */
async function partsOf(visit: DashboardVisit, call: CallRecord, ports: DashboardPorts) {
  const { credential, requestId, startedAtMs, durationMs } = call;
  const filter = {
    credential: credential.id,
    fromMs: startedAtMs - longestMs,
    untilMs: startedAtMs + (durationMs ?? 0) + longestMs,
  };
  const search = { filter, limit: mostBeside, budgetMs: 200 };
  const { calls } = await callsFor(visit, search, ports);
  return calls.filter((one) => one.requestId === requestId && one.endpoint.id !== call.endpoint.id);
}

/** Entries of the audit log that the same request caused. */
async function auditTable(
  { organization }: DashboardVisit,
  call: CallRecord,
  { db, clock }: DashboardPorts,
): Promise<Table | undefined> {
  const from = Math.floor(call.startedAtMs / 1000) - 1;
  const until = from + Math.ceil((call.durationMs ?? 0) / 1000) + 60;
  const { requestId } = call;
  const events = await listAuditEvents(db, { organization, requestId, from, until, limit: 50 });
  if (events.length === 0) return undefined;
  const sentenceOf = await auditSentencesOf(organization, events, db);
  return {
    caption: 'What the audit log says of this request',
    columns: ['What happened', 'When'],
    rows: events.map((event) => ({
      id: event.id,
      cells: [
        { kind: 'sentence', sentence: sentenceOf(event), badges: [], facts: [] },
        timeCell(event.at),
      ],
    })),
    empty: { text: '' },
    now: clock.now(),
  };
}

function aroundOf({ organization, person: reader }: DashboardVisit, call: CallRecord): Link {
  const { person, credential, startedAtMs } = call;
  const at = Math.floor(startedAtMs / 1000);
  const query = {
    ...(person ? { person: person.id } : { credential: credential.id }),
    from: isoTime(at - aroundSeconds),
    until: isoTime(at + aroundSeconds),
  };
  const isOwn = isOwnCall(call, reader.user.id);
  return {
    text: `${isOwn ? 'Your other calls' : `Other calls of ${callerName(call)}`} within ten minutes`,
    href: activityPath(organization, query),
  };
}

/** The pages of the server that has the called tool, and of the endpoint that was called; `undefined` once deleted. */
interface Homes {
  readonly server: string | undefined;
  readonly endpoint: string | undefined;
}

/** A link to the page where the reader can remove the cause of a failed call. */
function fixOf(visit: DashboardVisit, call: CallRecord, homes: Homes): Link | undefined {
  const place = failureOf(call)?.place;
  if (place === undefined) return undefined;
  const { organization } = visit;
  if (place === 'organization') {
    return visit.may('organization.manage')
      ? { text: 'Open settings', href: `${dashboardPath(organization)}/settings` }
      : undefined;
  }
  if (place === 'leavers') {
    return visit.may('key.manage')
      ? { text: 'Hand it over', href: ownerlessPath(organization) }
      : undefined;
  }
  const home = place === 'credential' ? homes.endpoint : homes.server;
  if (home === undefined) return undefined;
  const isManager = visit.may('server.manage');
  const links: Record<typeof place, Link | undefined> = {
    credential: credentialLink(call, home),
    settings: isManager ? { text: 'Open settings', href: `${home}/settings` } : undefined,
    access: visit.may('people.read') ? { text: 'Check access', href: `${home}/access` } : undefined,
    tools: isClosed(call) ? checkLink(visit, call) : { text: 'View tools', href: `${home}/tools` },
    upstream: isManager
      ? { text: 'Check upstream authentication', href: `${home}/upstream` }
      : undefined,
    account:
      call.person?.id === visit.person.user.id
        ? {
            text: call.error?.startsWith('key_') ? 'Enter your key' : 'Connect your account',
            href: `${home}/account`,
          }
        : undefined,
  };
  return links[place];
}

/** Whether a call was refused because its target is closed to the caller. */
function isClosed({ error }: CallRecord): boolean {
  return error?.startsWith('closed_') ?? false;
}

/** A link to the page that says what the caller may use, and why. */
function checkLink(
  { organization, may }: DashboardVisit,
  { person, credential, endpoint }: CallRecord,
): Link | undefined {
  if (!may('people.read')) return undefined;
  const who = person?.name ?? credential.id;
  return {
    text: 'Check what this caller can use',
    href: checkPath(organization, endpoint.name, who),
  };
}

/** The page of the key or client. Applications that registered themselves have none. */
function credentialLink({ credential }: CallRecord, home: string): Link | undefined {
  const { type, id } = credential;
  if (type === 'key') return { text: 'View API key', href: `${home}/keys/${id}` };
  if (type === 'client' && id.startsWith('client_')) {
    return { text: 'View OAuth client', href: `${home}/clients/${id}` };
  }
  return undefined;
}

/** Everything that is recorded about a call, under labels that people know. */
function factsOf(
  visit: DashboardVisit,
  call: CallRecord,
  {
    homes,
    isLeaver,
    devices,
  }: {
    readonly homes: Homes;
    readonly isLeaver: boolean;
    readonly devices: ReadonlyMap<string, string>;
  },
): Fact[] {
  const { person, application, endpoint, target, error, status, deviceId, durationMs } = call;
  const activity = (query: Parameters<typeof activityPath>[1]) =>
    activityPath(visit.organization, query);
  const hasPage = person && !isPseudonym(person.id) && !isLeaver && visit.may('people.read');
  const personHref = hasPage && `${dashboardPath(visit.organization)}/people/${person.id}`;
  const facts = [
    { label: 'Started', cell: timeCell(Math.floor(call.startedAtMs / 1000)) },
    plain('Took', durationMs === undefined ? undefined : msWords(durationMs)),
    plain('Outcome', endWords[call.end]),
    linked('Error code', error, activity({ error })),
    plain('HTTP status', status?.toString()),
    linked('Person', person && (person.name || person.id), personHref || undefined),
    credentialFact(call, homes.endpoint),
    plain(
      application?.source === 'user_agent'
        ? 'Application, by its User-Agent'
        : 'Application, as it calls itself',
      application?.text,
    ),
    linked(
      'Device, as it calls itself',
      person && deviceId && (devices.get(deviceId) ?? deviceId),
      activity({ person: person?.id, device: deviceId }),
    ),
    plain('Address', call.address),
    linked('Server', target.name, homes.server),
    linked(
      'Through the collection',
      endpoint.name === target.name ? undefined : endpoint.name,
      homes.endpoint,
    ),
    plain('Method', call.method ?? 'Refused before it was read'),
    linked(
      subjectLabel(call.method),
      call.subject,
      activity({ tool: call.subject, server: target.id }),
    ),
    linked(
      'Sent to the upstream with',
      accountWords[call.account],
      activity({ account: call.account }),
    ),
    plain('Account of', call.account === 'none' ? undefined : accountOwnerOf(call)?.name),
    plain('Request size', bytesWords(call.bytesIn)),
    plain('Response size', bytesWords(call.bytesOut)),
    plain('Repetitions', call.times > 1 ? `${call.times} within a minute` : undefined),
    plain('Protocol', call.era === 'modern' ? 'MCP since 2026-07-28' : 'MCP up to 2025-11-25'),
    plain('Answered by', call.node),
    copied('Request ID', call.requestId),
    copied('Trace ID', call.traceId),
    copied('Call ID', call.callId),
  ];
  return facts.filter((fact) => fact !== undefined);
}

function plain(label: string, text: string | undefined): Fact | undefined {
  return text === undefined ? undefined : { label, text: displayName(text, 500) };
}

function linked(label: string, text: string | undefined, href?: string): Fact | undefined {
  if (text === undefined) return undefined;
  const link = href === undefined ? {} : { href };
  return { label, cell: { kind: 'name', text: displayName(text, 200), ...link } };
}

function copied(label: string, id: string | undefined): Fact | undefined {
  return id === undefined ? undefined : { label, cell: { kind: 'id', text: displayName(id, 200) } };
}

function credentialFact(call: CallRecord, home: string | undefined): Fact | undefined {
  const { type, name, id } = call.credential;
  return type === 'person'
    ? plain('Credential', credentialWords.person)
    : linked(credentialWords[type], name || id, home && credentialLink(call, home)?.href);
}

function subjectLabel(method: string | undefined): string {
  if (method === 'resources/read') return 'Resource';
  if (method === 'prompts/get') return 'Prompt';
  return 'Tool';
}

function bytesWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1024 * 1024) return `${Number((bytes / 1024).toPrecision(3))} KiB`;
  return `${Number((bytes / 1024 / 1024).toPrecision(3))} MiB`;
}

/** One call with everything that is known about it. */
function callPage(data: CallPageData, frame: Frame): Html {
  const { call, heading, sentence, failure, remedy, fix, facts, rounds, parts, audit, around } =
    data;
  const { pseudonymize, notice } = data;
  const content = html`${pageHeading({ heading, badges: [endBadge(call)] })}
${statusNotice(notice)}
<p>${sentence} <span class="soft">·</span> ${localTime('exact', Math.floor(call.startedAtMs / 1000))}</p>
${
  failure &&
  html`<div class="notice warning">
<p dir="auto">${failure} ${remedy}</p>
${fix && html`<p><a class="button" href="${fix.href}">${fix.text}</a></p>`}
</div>`
}
<section class="group" aria-labelledby="facts-heading">
<h2 id="facts-heading">Details</h2>
${factList(facts, data.now)}
<p><a href="${around.href}" dir="auto">${around.text}</a></p>
${pseudonymize && html`<p>This person is not a member of the organization. <a href="${pseudonymize.href}" data-question>${pseudonymize.text}</a></p>`}
${zoneNote()}
</section>
${contentsSection(data, frame)}
${section('rounds', 'Rounds of this call', rounds)}
${section('parts', 'The same request at the collection or its member', parts)}
${section('audit', 'Entries of the audit log', audit)}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

function contentsSection({ contents, read }: CallPageData, frame: Frame): Html | undefined {
  if (read === undefined) return undefined;
  const button = html`<p>They are read only when you ask for them. Each reading is an entry in the audit log.</p>
<div class="actions"><button>Show arguments and result</button></div>`;
  return html`<section class="section" aria-labelledby="contents-heading">
<h2 id="contents-heading">Arguments and result</h2>
${contents ? html`${partOf('Arguments', contents.arguments)}${partOf('Result', contents.result)}` : postForm(frame, { action: read }, button)}
</section>`;
}

function partOf(heading: string, part: Contents['arguments']): Html {
  const text = part
    ? html`<pre class="contents" tabindex="0" dir="auto"><code>${formatted(part.text)}</code></pre>
${part.isCut && html`<p class="help">The rest exceeded the limit of this server and is not stored.</p>`}`
    : html`<p class="lead">Nothing is stored.</p>`;
  return html`<h3>${heading}</h3>
${text}`;
}

function formatted(json: string): string {
  return JSON.stringify(JSON.parse(json), null, 2);
}

function section(id: string, heading: string, table: Table | undefined): Html | undefined {
  return (
    table &&
    html`<section class="section" aria-labelledby="${id}-heading">
<h2 id="${id}-heading">${heading}</h2>
${dataTable(table)}
</section>`
  );
}
