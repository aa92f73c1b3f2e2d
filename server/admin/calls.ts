import { z } from 'zod';

import type { ExportedQuery } from '#activity/export-calls';
import { asAskedByCaller, asToldToCaller } from '#activity/own-calls';
import { failureOf } from '#activity/sentences';
import { writtenAtMs } from '#db/calls';
import { type CallFilter, findCall, searchCalls, watermarkAt } from '#db/find-calls';
import type { Organization } from '#db/organizations';
import { findMember, findUserByEmail } from '#db/people';
import { listNames } from '#db/collections';
import { findServer, findServerById } from '#db/servers';
import type { Db } from '#db/transaction';
import {
  accountOwnerOf,
  callEnds,
  type CallRecord,
  credentialTypes,
  upstreamAccounts,
} from '#model/calls';
import { emailKey } from '#model/email';
import type { Role } from '#model/roles';
import { fields, wholeNumber, words } from './fields.ts';
import { gapViewSchema, missingCalls } from './missing-calls.ts';
import {
  type Actor,
  mayDo,
  organizationOperation,
  type Operation,
  type WithDbAndClock,
} from './operation.ts';
import { forbidden, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

export const mostALimit = 200;
const path = '/organizations/{organization}/calls';
const cursor = z.string().regex(/^[\da-f]{12,24}$/, 'is not a value from an earlier response');

const callFilter = {
  person: words(320).optional().describe('The ID or the e-mail address of a person'),
  application: words(200)
    .optional()
    .describe('The application, as it calls itself; `*` stands for any text'),
  device: words(100).optional().describe('The ID of a device; name the person, too'),
  credential: words(2000).optional().describe('The ID of a key or client'),
  server: fields.server.optional(),
  tool: words(500).optional().describe('A tool, prompt or resource; `*` stands for any text'),
  outcome: z
    .enum([...callEnds, 'failed'])
    .optional()
    .describe('How it ended; `failed`: all but `ok` and `cancelled`'),
  account: z.enum(upstreamAccounts).optional().describe('What the server was called with'),
  error: words(100).optional().describe('The code of the error, for example `insufficient_scope`'),
  from: wholeNumber().optional().describe('Calls at or after this time, in seconds since 1970'),
  until: wholeNumber().optional().describe('Calls before this time, in seconds since 1970'),
};

type CallFilterInput = z.output<z.ZodObject<typeof callFilter>>;

const named = z.object({ id: z.string(), name: z.string() });

export const callViewSchema = z
  .object({
    id: z.string(),
    callId: z.string().describe('The same for all rounds of a call that needed input'),
    at: fields.at,
    startedAtMs: z.int().describe('The same in milliseconds since 1970'),
    durationMs: z.int().nullable().describe('`null` if it has not ended'),
    person: named.nullable().describe('The name is the e-mail address at the time of the call'),
    credential: named.extend({ type: z.enum([...credentialTypes, 'unknown']) }),
    application: z.string().nullable().describe('As it calls itself'),
    applicationSource: z.enum(['client_info', 'user_agent']).nullable(),
    deviceId: z.string().nullable().describe('The device that the `latchkey` proxy named'),
    address: z.string().nullable(),
    endpoint: named.describe('Where it was called: the server itself, or a collection'),
    server: named.describe(
      'The server whose tool it was, if need be through the collection that `endpoint` is; the ID is that of its target',
    ),
    account: z.enum(upstreamAccounts).describe('What the server was called with'),
    accountOwner: named
      .nullable()
      .describe('Whose that was: the server, or the person who called; at the time of the call'),
    method: z.string().nullable(),
    tool: z.string().nullable().describe('The tool, prompt or resource'),
    outcome: z.enum(callEnds),
    error: z.string().nullable(),
    reason: z.string().nullable().describe('Why it failed; follows “the call failed because”'),
    remedy: z.string().nullable().describe('What to do next'),
    status: z.int().nullable(),
    bytesIn: z.int(),
    bytesOut: z.int(),
    times: z.int().describe('How often it happened: equal refusals of a minute are one call'),
    requestId: z.string(),
    traceId: z.string().nullable(),
    era: z.enum(['legacy', 'modern']),
    node: z.string(),
  })
  .meta({ id: 'Call' });

function toCallView(call: CallRecord): z.output<typeof callViewSchema> {
  const { application, startedAtMs, subject, target } = call;
  const failure = failureOf(call);
  return viewOf(callViewSchema, {
    ...call,
    at: Math.floor(startedAtMs / 1000),
    application: application?.text,
    applicationSource: application?.source,
    server: target,
    accountOwner: accountOwnerOf(call),
    tool: subject,
    outcome: call.end,
    reason: failure?.because,
    remedy: failure?.remedy,
  });
}

/** The organization whose calls are read, and the reader. */
interface Reading {
  readonly organization: Pick<Organization, 'id' | 'name'>;
  readonly role: Role;
  readonly actor: Actor;
}

/** The person whose calls alone a reader may see; `undefined` if the reader may see all calls of the organization. */
export function ownCallsOnly({ role, actor }: Pick<Reading, 'role' | 'actor'>): string | undefined {
  return mayDo(role, 'activity.read') || actor.type === 'operator' ? undefined : actor.userId;
}

/** The call with this id, as its reader sees it. @throws {AdministrationRefusal} `not_found`, also for a call that the reader may not see */
export async function findReadableCall(
  id: string,
  { organization, ...reader }: Reading,
  db: Db,
): Promise<CallRecord> {
  const call = await findCall(db, organization.id, id);
  const own = ownCallsOnly(reader);
  if (!call || (own !== undefined && call.person?.id !== own)) throw notFound('call');
  return own === undefined ? call : asToldToCaller(call);
}

/** Selects a person by id or address. An address without an account selects the calls that carry it. */
export async function selectedPerson(
  person: string | undefined,
  db: Db,
): Promise<Pick<CallFilter, 'person' | 'personName'>> {
  if (!person?.includes('@')) return { person };
  const user = await findUserByEmail(db, person);
  return user ? { person: user.id } : { personName: emailKey(person) };
}

/**
 * Selects the calls at an endpoint: for a server, all calls of its tools, including those through collections; for a collection, the calls
 * that it received, with `tool` as the name that it shows. Without an endpoint, `tool` is the name at any server.
 */
export async function callsAt(
  {
    endpoint,
    tool,
  }: { readonly endpoint?: string | undefined; readonly tool?: string | undefined },
  db: Db,
): Promise<Required<Pick<CallFilter, 'endpoint' | 'target' | 'names'>>> {
  const names = tool === undefined ? undefined : [tool];
  if (endpoint === undefined) return { endpoint, target: undefined, names };
  const found = await findServerById(db, endpoint);
  // The endpoint was deleted. It may have been a collection.
  if (!found) return { endpoint, target: undefined, names };
  const { id, target } = found;
  if (target.upstream.kind !== 'collection')
    return { endpoint: undefined, target: target.id, names };
  const shown = tool === undefined ? [] : await listNames(db, id);
  const renamed = shown.find((one) => one.state === 'shown' && one.shown === tool);
  if (!renamed || renamed.name === tool) return { endpoint: id, target: undefined, names };
  // Calls are recorded under the name that the member gives the tool.
  const member = await findServerById(db, renamed.member);
  return { endpoint: id, target: member?.target.id, names: [renamed.name] };
}

/**
 * Whether a filter by this address can select anything: a member has it, or a recorded call has it, such as a call of a person
 * who left. `undefined` if the search takes too long.
 */
export async function isKnownAddress(
  address: string,
  organizationId: string,
  { db, clock }: WithDbAndClock,
): Promise<boolean | undefined> {
  const filter = await selectedPerson(address, db);
  if (filter.person !== undefined && (await findMember(db, organizationId, filter.person))) {
    return true;
  }
  const watermarkMs = watermarkAt(clock.now());
  const found = await searchCalls(db, { organizationId, filter, limit: 1, watermarkMs });
  if (found.calls.length > 0) return true;
  return found.stoppedAt === undefined ? false : undefined;
}

/**
 * Converts the input to a filter for this reader, with ids instead of names.
 *
 * @throws {AdministrationRefusal} `forbidden` for the calls of another person, `not_found` for an unknown server
 */
async function selected(
  { person, server, tool, outcome, from, until, ...exact }: CallFilterInput,
  reading: Reading,
  db: Db,
): Promise<CallFilter> {
  const { organization, role } = reading;
  const own = ownCallsOnly(reading);
  const wanted = await selectedPerson(person, db);
  if (own !== undefined && person !== undefined && wanted.person !== own) {
    throw forbidden(`your role in ${organization.name} (${role}) shows you only your own calls`);
  }
  const found = server === undefined ? undefined : await findServer(db, organization.name, server);
  if (server !== undefined && !found) throw notFound('server');
  return {
    ...exact,
    ...wanted,
    ...(own !== undefined && { person: own }),
    ...(await callsAt({ endpoint: found?.id, tool }, db)),
    end: outcome,
    fromMs: from === undefined ? undefined : from * 1000,
    untilMs: until === undefined ? undefined : until * 1000,
  };
}

/** The gaps in the recorded calls within the time range of a filter. */
const findMissing = (reading: Reading, filter: CallFilter, db: Db) =>
  missingCalls(db, reading.organization.id, filter, ownCallsOnly(reading) !== undefined);

export const callList = organizationOperation({
  name: 'call.list',
  doc: 'List the recorded calls of an organization, newest first',
  route: { method: 'GET', path },
  permission: 'organization.read',
  input: z.strictObject({
    organization: fields.organization,
    ...callFilter,
    after: cursor.optional().describe('The `next` value of the previous response'),
    newer: cursor.optional().describe('The ID of a call: lists those recorded after it'),
    limit: z.coerce.number().int().min(1).max(mostALimit).default(50),
  }),
  output: z.object({
    items: z.array(callViewSchema),
    next: z.string().nullable().describe('The `after` value of the next page'),
    searchedTo: fields.at
      .nullable()
      .describe('Set if the search took too long: how far back it has searched'),
    missing: z
      .array(gapViewSchema)
      .describe(
        'Calls in the selected time that were answered and not recorded, or whose end was not, newest first',
      ),
  }),
  async run({ after, newer, limit, ...filter }, reading, { db, clock, signal }) {
    const id = newer ?? after;
    const side = newer === undefined ? 'older' : 'newer';
    const chosen = await selected(filter, reading, db);
    const isOwn = ownCallsOnly(reading) !== undefined;
    const found = await searchCalls(db, {
      organizationId: reading.organization.id,
      filter: isOwn ? asAskedByCaller(chosen) : chosen,
      from: id === undefined ? undefined : { id, side },
      limit,
      watermarkMs: watermarkAt(clock.now()),
      signal,
    });
    const { calls, hasMore, stoppedAt } = found;
    const last = side === 'older' ? calls.at(-1) : calls[0];
    return {
      items: calls.map((call) => toCallView(isOwn ? asToldToCaller(call) : call)),
      next: hasMore ? (stoppedAt ?? last?.id ?? null) : null,
      searchedTo: stoppedAt === undefined ? null : Math.floor(writtenAtMs(stoppedAt) / 1000),
      missing: await findMissing(reading, chosen, db),
    };
  },
});

export const callRead = organizationOperation({
  name: 'call.read',
  doc: 'Show a recorded call',
  route: { method: 'GET', path: `${path}/{callId}` },
  permission: 'organization.read',
  input: z.strictObject({ organization: fields.organization, callId: words(40) }),
  output: callViewSchema,
  async run({ callId }, reading, { db }) {
    return toCallView(await findReadableCall(callId, reading, db));
  },
});

/** Authorizes and records an export, and returns the filter with ids. The caller streams the data from `exportCalls`. */
export const callExport = organizationOperation({
  name: 'call.export',
  doc: 'Export the recorded calls of an organization as a file',
  permission: 'organization.read',
  input: z.strictObject({
    organization: fields.organization,
    ...callFilter,
    format: z.enum(['csv', 'jsonl']),
  }),
  output: z.object({ query: z.custom<ExportedQuery>(), missing: z.array(gapViewSchema) }),
  target: ({ format }) => format,
  async run(input, reading, { db, clock }) {
    const filter = await selected(input, reading, db);
    const query = {
      organizationId: reading.organization.id,
      filter,
      watermarkMs: watermarkAt(clock.now()),
      isOwn: ownCallsOnly(reading) !== undefined,
    };
    return { query, missing: await findMissing(reading, filter, db) };
  },
});

export const callOperations: readonly Operation[] = [callList, callRead, callExport];
