import { asAskedByCaller, asToldToCaller } from '#activity/own-calls';
import { failureOf, isOwnCall } from '#activity/sentences';
import { endWords } from '#activity/call-words';
import { callsAt, ownCallsOnly } from '#admin/calls';
import { notFound } from '#admin/refusal';
import {
  type CallFilter,
  type CallSearch,
  type FoundCalls,
  searchCalls,
  watermarkAt,
} from '#db/find-calls';
import { findDeviceNames } from '#db/devices';
import { findOrganization } from '#db/organizations';
import { type CallFilter as RollupFilter, hasCountedCalls } from '#db/rollups';
import { findServerTitles } from '#db/servers';
import type { CallRecord } from '#model/calls';
import { displayName, html, type Html } from '#web/html';
import { badge, type Badge, dashboardPath } from '#web/layout';
import { type CallsHref, msWords } from '#web/plots';
import { dataTable, type Table, timeCell } from '#web/tables';
import { isoTime } from '#web/times';
import { titleText } from '#web/titles';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';
import { usagePath } from './usage-query.ts';

// Recorded calls as pages show them: who may see which, sentences, tables.

/** Searches the calls that this person may see: all of the organization, or only their own. */
export async function callsFor(
  visit: DashboardVisit,
  search: Pick<CallSearch, 'filter' | 'from' | 'limit' | 'budgetMs'>,
  { db, clock }: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<FoundCalls> {
  const own = ownCallsOnly(visit);
  const { person = own } = search.filter;
  if (own !== undefined && person !== own) return { calls: [], hasMore: false };
  const all = { ...search.filter, person };
  const filter = own === undefined ? all : asAskedByCaller(all);
  const organization = await findOrganization(db, visit.organization);
  if (!organization) throw notFound('organization');
  const watermarkMs = watermarkAt(clock.now());
  const at = { organizationId: organization.id, filter, watermarkMs };
  const found = await searchCalls(db, { ...search, ...at });
  return own === undefined ? found : { ...found, calls: found.calls.map(asToldToCaller) };
}

/** The query parameters of a link to Activity. */
export type ActivityQuery = Readonly<
  Partial<
    Record<
      | 'from'
      | 'until'
      | 'person'
      | 'application'
      /** `all`: the application with this name, whichever version it announces. */
      | 'versions'
      | 'device'
      | 'credential'
      | 'endpoint'
      | 'server'
      | 'tool'
      | 'outcome'
      | 'account'
      | 'error'
      | 'older'
      | 'newer'
      | 'format',
      string | undefined
    >
  >
>;

/** The path of Activity with a filter; `path` follows `/activity`. */
export function activityPath(organization: string, query: ActivityQuery = {}, path = ''): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.set(name, value);
  const home = `${dashboardPath(organization)}/activity${path}`;
  return parameters.size === 0 ? home : `${home}?${parameters.toString()}`;
}

/** Returns links to the calls behind a step of a plot. */
export function callsHref(
  organization: string,
  stepSeconds: number,
  query: ActivityQuery = {},
): CallsHref {
  return (at, of) =>
    activityPath(organization, {
      ...query,
      ...(of === 'errors' && { outcome: 'failed' }),
      from: isoTime(at),
      until: isoTime(at + stepSeconds),
    });
}

/** Says that a bar or number may open fewer calls than it counts. */
export function unrecordedNote(): Html {
  return html`<p class="help">Click a bar or a number to see its calls under Activity. The counts include lists and other requests, which Activity records only if the server runs with <code class="word">--call-log-lists</code>.</p>`;
}

/** The page of one call. */
export function callPath(organization: string, { id }: Pick<CallRecord, 'id'>): string {
  return `${dashboardPath(organization)}/activity/${id}`;
}

const longestText = 60;
/** The reason may contain an address. */
const longestReason = 400;

/** A text that a caller chose, short enough for a sentence. */
function words(text: string, limit = longestText): string {
  return displayName(text, limit) || 'unnamed';
}

/** Labels for the kinds of credentials. */
export const credentialWords: Readonly<Record<CallRecord['credential']['type'], string>> = {
  key: 'API key',
  client: 'OAuth client',
  person: 'Signed in here',
  unknown: 'Credential',
};

/** Who reads the page. */
type Reader = Pick<DashboardVisit['person'], 'user'>;

/** The person or the credential that called, as the subject of a sentence. */
export function callerName({ person, credential }: CallRecord): string {
  if (person) return words(person.name || person.id);
  const kind = credentialWords[credential.type];
  return `${kind} ${words(credential.name || credential.id)}`;
}

export function endBadge({ end }: Pick<CallRecord, 'end'>): Badge {
  const tone =
    end === 'ok' ? 'good' : end === 'cancelled' ? 'plain' : end === 'unknown' ? 'care' : 'bad';
  return { text: endWords[end], tone };
}

/** Why a call failed, in one sentence for this reader; `undefined` if it did not. */
export function failureSentence(call: CallRecord, { user }: Reader): string | undefined {
  const failure = failureOf(call, user.id);
  if (!failure) return undefined;
  const verb = call.end === 'refused' ? 'was refused' : 'failed';
  const ofPerson = isOwnCall(call, user.id) ? 'Your call' : `The call of ${callerName(call)}`;
  const whose = call.person ? ofPerson : `The call with the ${callerName(call)}`;
  return `${whose} ${verb} because ${displayName(failure.because, longestReason)}.`;
}

/** The verbs for methods, which precede the name of a tool, prompt or resource. */
const verbs: Readonly<Record<string, readonly [did: string, tried: string]>> = {
  'tools/call': ['used', 'use'],
  'resources/read': ['read', 'read'],
  'prompts/get': ['used the prompt', 'use the prompt'],
  'tasks/result': ['fetched the result of a task', 'fetch the result of a task'],
  'tasks/cancel': ['cancelled a task', 'cancel a task'],
  'tools/list': ['listed the tools', 'list the tools'],
  'resources/list': ['listed the resources', 'list the resources'],
  'prompts/list': ['listed the prompts', 'list the prompts'],
  initialize: ['connected', 'connect'],
};

/** Turns a value of a sentence into its markup, usually a link. */
export type ShowValue = (text: string, query: ActivityQuery) => Html;

const plainValue: ShowValue = (text) => html`<strong dir="auto">${text}</strong>`;

/** Shows the reader as "You", for a page about one call. Lists of the calls of many people name the reader, too. */
export function withYou({ user }: Reader): ShowValue {
  return (text, value) =>
    value.person === user.id && value.device === undefined
      ? html`<strong>You</strong>`
      : plainValue(text, value);
}

/** What happened, in words: who used what of which server, and with which application. */
export function callSentence(
  call: CallRecord,
  titles: ReadonlyMap<string, string>,
  show: ShowValue,
  devices: ReadonlyMap<string, string>,
): Html {
  const { person, credential, application, subject, endpoint, target, method, end } = call;
  const who = person
    ? show(callerName(call), { person: person.id })
    : show(callerName(call), { credential: credential.id });
  const [did, tried] = (method !== undefined && Object.hasOwn(verbs, method)
    ? verbs[method]
    : undefined) ?? [
    `sent ${words(method ?? 'a request')}`,
    `send ${words(method ?? 'a request')}`,
  ];
  const verb = end === 'ok' || end === 'tool_error' ? did : `tried to ${tried}`;
  const what = subject === undefined ? undefined : show(words(subject), { tool: subject });
  const titled = ({ name }: CallRecord['target']) => titleText({ name, title: titles.get(name) });
  const server = show(titled(target), { server: target.id });
  const through =
    endpoint.name === target.name
      ? ''
      : html` through ${show(titled(endpoint), { endpoint: endpoint.id, server: undefined })}`;
  const joint = what ? 'of' : method === 'initialize' || method === undefined ? 'to' : 'of';
  const by = application
    ? html` with “${show(words(application.text, 40), { application: application.text, versions: undefined })}”`
    : person && credential.type !== 'person'
      ? html` with ${show(words(credential.name || credential.id), { credential: credential.id })}`
      : '';
  const { deviceId = '' } = call;
  const device = devices.get(deviceId);
  const on =
    device && person
      ? html` on ${show(words(device), { person: person.id, device: deviceId })}`
      : '';
  return html`${who} ${verb}${what && html` ${what}`} ${joint} ${server}${through}${by}${on}`;
}

interface CallTable {
  readonly caption: string;
  /** Shown if there are no calls. */
  readonly empty: string | Table['empty'];
  /** Turns a value of a row into its markup. Default: bold text. */
  readonly show?: ShowValue;
  /** Whether rows of failed calls also say what to do next. */
  readonly hasRemedies?: boolean;
}

/** Calls as a table, each with a link to its page. */
export async function callTable(
  { organization, person: reader }: Pick<DashboardVisit, 'organization' | 'person'>,
  calls: readonly CallRecord[],
  { caption, empty, show = plainValue, hasRemedies = false }: CallTable,
  { db, clock }: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<Table> {
  const names = calls.flatMap(({ target, endpoint }) => [target.name, endpoint.name]);
  const servers = [...new Set(names)];
  const titles = await findServerTitles(db, organization, servers);
  const devices = await findDeviceNames(
    db,
    calls.flatMap(({ deviceId }) => deviceId ?? []),
  );
  return {
    caption,
    columns: ['What happened', 'Took', 'When', 'Details'],
    rows: calls.map((call) => ({
      id: call.id,
      cells: [
        {
          kind: 'sentence',
          sentence: html`${callSentence(call, titles, show, devices)} ${badge(endBadge(call))}${repeated(call)}${reasonLine(call, reader, hasRemedies)}`,
          badges: [],
          facts: [],
        },
        { kind: 'text', text: call.durationMs === undefined ? '' : msWords(call.durationMs) },
        timeCell(Math.floor(call.startedAtMs / 1000)),
        {
          kind: 'actions',
          actions: [{ text: 'View', href: callPath(organization, call), of: 'the call' }],
        },
      ],
    })),
    empty: typeof empty === 'string' ? { text: empty } : empty,
    now: clock.now(),
  };
}

function repeated({ times }: CallRecord): Html | undefined {
  return times > 1 ? html` ${badge({ text: `${times} times`, tone: 'plain' })}` : undefined;
}

function reasonLine(call: CallRecord, reader: Reader, hasRemedy: boolean): Html | undefined {
  const failure = failureOf(call, reader.user.id);
  if (!failure) return undefined;
  if (hasRemedy) {
    return html`<p class="note">${failureSentence(call, reader)} ${failure.remedy}</p>`;
  }
  const because = displayName(failure.because, longestReason);
  return html`<p class="note">${because.charAt(0).toUpperCase()}${because.slice(1)}.</p>`;
}

const mostLast = 5;

/**
 * The last calls that a filter selects, as a section of another page; `undefined` for people who may not see them. `counted` selects their
 * usage, to which the section links if there is any.
 */
export async function lastCalls(
  visit: DashboardVisit,
  query: Pick<CallFilter, 'person' | 'credential' | 'endpoint'>,
  counted: RollupFilter,
  ports: DashboardPorts,
): Promise<Html | undefined> {
  if (!visit.may('activity.read')) return undefined;
  const { organization } = visit;
  const fromMs = (ports.clock.now() - usualDays * daySeconds) * 1000;
  const filter = { ...query, ...(await callsAt(query, ports.db)), fromMs };
  const search = { filter, limit: mostLast, budgetMs: 200 };
  const { calls } = await callsFor(visit, search, ports);
  const range = '7d';
  const usage = (await isCounted(visit, counted, ports))
    ? usagePath(organization, { range, ...counted })
    : undefined;
  const caption = 'The last calls';
  const empty = `No calls in the last ${usualDays} days.`;
  const table = await callTable(visit, calls, { caption, empty }, ports);
  return html`<section class="section" aria-labelledby="calls-heading">
<h2 id="calls-heading">Last calls</h2>
${calls.length === 0 ? html`<p class="lead">${empty}</p>` : dataTable(table)}
<p class="links"><a href="${activityPath(organization, query)}">View all calls</a> ${usage !== undefined && html`<a href="${usage}">View usage of the last 7 days</a>`}</p>
</section>`;
}

async function isCounted(
  { organization }: DashboardVisit,
  counted: RollupFilter,
  { db, clock }: DashboardPorts,
): Promise<boolean> {
  const found = await findOrganization(db, organization);
  return found !== undefined && hasCountedCalls(db, found.id, counted, clock.now());
}

/** How far back Activity goes unless the reader says otherwise. */
export const usualDays = 7;
export const daySeconds = 86_400;
