import { z } from 'zod';

import {
  decideAccessRequest,
  findAccessRequest,
  insertAccessRequest,
  listAccessRequests,
  lockOpeningGroups,
  mostOpenRequests,
  mostRequestsADay,
  newestRequestsOf,
  type AccessRequest,
} from '#db/access-requests';
import { insertGroupMember } from '#db/groups';
import { listTakers } from '#db/leavers';
import type { Organization } from '#db/organizations';
import { findUser } from '#db/people';
import { findServerAccess } from '#db/server-access';
import { randomBase62 } from '#secrets/secrets';
import { command, listCommand, type Command } from './command.ts';
import { fields, surfaces, words } from './fields.ts';
import { enqueueNotices } from './mail.ts';
import {
  actorName,
  type AdministrationPorts,
  organizationOperation,
  type Operation,
  personOf,
  type WithDb,
} from './operation.ts';
import { pageOf, pageNumberFields, toPageView } from './paging.ts';
import { ofServer, serverPath, serverTarget } from './paths.ts';
import { groupArgument } from './groups.ts';
import { organizationArgument, textArgument } from './positionals.ts';
import { type AdministrationRefusal, conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const inOrganization = { organization: fields.organization };
const path = '/organizations/{organization}/access-requests';
const ofRequest = { ...inOrganization, requestId: z.string().max(100) };
const requestPath = `${path}/{requestId}`;
const ownPath = `${serverPath}/access-request`;

/** The most administrators who get a mail about a request. */
const mostMails = 20;

const requestViewSchema = z
  .object({
    id: z.string(),
    server: z.string(),
    title: z.string(),
    userId: z.string(),
    email: z.string(),
    reason: z.string(),
    status: z.enum(['open', 'granted', 'declined', 'withdrawn']),
    createdAt: fields.at,
    decidedAt: fields.maybeAt,
    decidedBy: z.string().nullable().describe('The actor, as the audit log names it'),
    group: z.string().nullable().describe('The group that the person was added to'),
    answer: z.string().describe('What the person was told; empty unless declined'),
  })
  .meta({ id: 'AccessRequest' });

export type AccessRequestView = z.output<typeof requestViewSchema>;

function toRequestView(request: AccessRequest): AccessRequestView {
  const title = request.title || request.server;
  return viewOf(requestViewSchema, { ...request, title });
}

/** A text field that joins several lines into one. */
function oneLine(most: number) {
  return z
    .string()
    .max(2 * most)
    .transform((text) => text.replaceAll(/\s*[\r\n]+\s*/g, ' '))
    .pipe(words(most).min(1));
}

const longestReason = 500;
const longestAnswer = 200;

export const requestCreate = organizationOperation({
  name: 'access-request.create',
  doc: `Ask for access to a server that an administrator lets people ask for. At most ${mostOpenRequests} requests of a person are open, and ${mostRequestsADay} made in a day`,
  route: { method: 'POST', path: ownPath },
  permission: 'organization.read',
  input: z.strictObject({
    ...ofServer,
    reason: oneLine(longestReason).register(surfaces, {
      control: {
        kind: 'textarea',
        label: 'Why do you need it?',
        subject: 'The reason',
        help: 'The administrators of the organization read this.',
        attributes: { maxlength: String(longestReason) },
      },
    }),
  }),
  output: requestViewSchema,
  target: serverTarget,
  async run({ server, reason }, { organization, actor }, ports) {
    const { db, clock } = ports;
    const userId = personOf(actor);
    const id = `request_${randomBase62(16)}`;
    const asked = { id, organizationId: organization.id, server, userId, reason };
    switch (await insertAccessRequest(db, asked, clock.now())) {
      case 'unknown':
        throw notFound('server');
      case 'usable':
        throw conflict('you can use this server already');
      case 'asked':
        throw conflict('you asked for this server already');
      case 'too-many': {
        const why = `you asked for too much: at most ${mostOpenRequests} requests wait for an answer, and ${mostRequestsADay} are made in a day`;
        throw conflict(why);
      }
      case 'done':
        break;
    }
    const request = toRequestView(await ownRequest(organization.id, id, ports));
    const deciders = await listTakers(db, organization.id, ['owner', 'admin'], userId);
    const text = `${request.email} asks for access to ${request.title}`;
    await tell(
      organization,
      deciders.slice(0, mostMails).map(({ email }) => email),
      { text, path: `/dashboard/${organization.name}/people/requests` },
      ports,
    );
    return request;
  },
});

export const requestReadOwn = organizationOperation({
  name: 'access-request.read-own',
  doc: 'Read your newest request for access to a server, with its answer',
  route: { method: 'GET', path: ownPath },
  permission: 'organization.read',
  input: z.strictObject(ofServer),
  output: requestViewSchema,
  async run({ server }, { organization, actor }, ports) {
    return toRequestView(await ownNewest(organization, { server, userId: personOf(actor) }, ports));
  },
});

export const requestWithdraw = organizationOperation({
  name: 'access-request.withdraw',
  doc: 'Withdraw your open request for access to a server',
  route: { method: 'DELETE', path: ownPath },
  permission: 'organization.read',
  input: z.strictObject(ofServer),
  output: requestViewSchema,
  target: serverTarget,
  async run({ server }, { organization, actor }, ports) {
    const { db, clock } = ports;
    const own = await ownNewest(organization, { server, userId: personOf(actor) }, ports);
    const decision = { status: 'withdrawn', by: actorName(actor), at: clock.now() } as const;
    if (!(await decideAccessRequest(db, organization.id, own.id, decision))) throw decided();
    const withdrawn = await ownRequest(organization.id, own.id, ports);
    return toRequestView({ ...withdrawn, title: own.title });
  },
});

/** The newest request of a person for a server. @throws {AdministrationRefusal} `not_found` */
async function ownNewest(
  { id }: Organization,
  { server, userId }: { readonly server: string; readonly userId: string },
  { db }: WithDb,
): Promise<AccessRequest> {
  const own = await newestRequestsOf(db, id, userId);
  const found = [...own.values()].find((request) => request.server === server);
  if (found) return found;
  throw notFound('request');
}

export const requestList = organizationOperation({
  name: 'access-request.list',
  doc: 'List the requests of people for access to servers: the open ones, oldest first, or those of the last 90 days that were decided',
  route: { method: 'GET', path },
  permission: 'people.read',
  input: z.strictObject({
    ...inOrganization,
    status: z
      .enum(['open', 'decided'])
      .default('open')
      .describe('Requests that wait for an answer (open, the default), or the others (decided)')
      .register(surfaces, { option: { value: 'STATUS', fallback: 'open' } }),
    ...pageNumberFields,
  }),
  output: pageOf(requestViewSchema),
  async run({ status, page, limit }, { organization }, { db }) {
    const part = { status, limit, offset: (page - 1) * limit };
    const requests = await listAccessRequests(db, organization.id, part);
    return toPageView(requests, { page, limit }, toRequestView);
  },
});

export const requestRead = organizationOperation({
  name: 'access-request.read',
  doc: 'Read a request for access, with the groups through which it can be granted',
  route: { method: 'GET', path: requestPath },
  permission: 'people.read',
  input: z.strictObject(ofRequest),
  output: requestViewSchema
    .extend({
      groups: z
        .array(z.object({ id: z.string(), name: z.string() }))
        .describe('The groups that open the server'),
    })
    .meta({ id: 'AccessRequestWithGroups' }),
  async run({ requestId }, { organization }, ports) {
    const request = await ownRequest(organization.id, requestId, ports);
    const access = await findServerAccess(ports.db, request.serverId);
    return { ...toRequestView(request), groups: [...(access?.groups ?? [])] };
  },
});

/** @throws {AdministrationRefusal} `not_found` */
async function ownRequest(organizationId: string, id: string, { db }: WithDb) {
  const request = await findAccessRequest(db, organizationId, id);
  if (request) return request;
  throw notFound('request');
}

/** The parts that granting and declining share. */
const decisive = {
  permission: 'people.manage',
  output: requestViewSchema,
  target: ({ organization, requestId }: { organization: string; requestId: string }, done?: Told) =>
    done
      ? `user:${done.userId} server:${organization}/${done.server}${done.groupId === undefined ? '' : ` group:${done.groupId}`} request:${requestId}`
      : `request:${requestId}`,
} as const;

interface Told {
  readonly userId: string;
  readonly server: string;
  readonly groupId?: string;
}

export const requestGrant = organizationOperation({
  name: 'access-request.grant',
  doc: 'Grant a request: add the person to a group that opens the server. A request is decided once',
  route: { method: 'POST', path: `${requestPath}/grant` },
  ...decisive,
  input: z.strictObject({
    ...ofRequest,
    groupId: z
      .string()
      .max(100)
      .describe('One of the groups that open the server')
      .register(surfaces, {
        control: {
          kind: 'radio',
          name: 'group',
          label: 'Add the person to',
          subject: 'The group',
          choices: [],
        },
      }),
  }),
  output: requestViewSchema.extend({ groupId: z.string() }).meta({ id: 'GrantedAccessRequest' }),
  async run({ requestId, groupId }, { organization, actor }, ports) {
    const { db, clock } = ports;
    const { serverId, userId, isUsable, status } = await ownRequest(
      organization.id,
      requestId,
      ports,
    );
    if (status !== 'open') throw decided();
    if (isUsable) throw conflict('the person can use this server already');
    const groups = await lockOpeningGroups(db, organization.id, serverId);
    const group = groups.find(({ id }) => id === groupId);
    if (!group) throw invalidField('groupId', 'is not a group that opens the server');
    const decision = {
      status: 'granted',
      by: actorName(actor),
      at: clock.now(),
      group: group.name,
    } as const;
    if (!(await decideAccessRequest(db, organization.id, requestId, decision))) throw decided();
    if (!(await insertGroupMember(db, organization.id, groupId, userId))) throw notFound('person');
    const request = toRequestView(await ownRequest(organization.id, requestId, ports));
    const text = `You can use ${request.title} now: your request for access was granted`;
    await tellPerson(organization, request, text, ports);
    return { ...request, groupId };
  },
});

export const requestDecline = organizationOperation({
  name: 'access-request.decline',
  doc: 'Decline a request, with a reason for the person. A request is decided once',
  route: { method: 'POST', path: `${requestPath}/decline` },
  ...decisive,
  input: z.strictObject({
    ...ofRequest,
    answer: oneLine(longestAnswer)
      .describe('Why; the person reads it')
      .register(surfaces, {
        option: { value: 'TEXT', doc: 'why; the person reads it' },
        control: {
          kind: 'text',
          label: 'Reason',
          subject: 'The reason',
          help: 'The person reads it on their page.',
          attributes: { maxlength: String(longestAnswer), autocomplete: 'off' },
        },
      }),
  }),
  async run({ requestId, answer }, { organization, actor }, ports) {
    const { db, clock } = ports;
    await ownRequest(organization.id, requestId, ports);
    const decision = { status: 'declined', by: actorName(actor), at: clock.now(), answer } as const;
    if (!(await decideAccessRequest(db, organization.id, requestId, decision))) throw decided();
    const request = toRequestView(await ownRequest(organization.id, requestId, ports));
    const text = `Your request for access to ${request.title} was declined: ${answer}`;
    await tellPerson(organization, request, text, ports);
    return request;
  },
});

function decided(): AdministrationRefusal {
  return conflict('this request was decided already');
}

async function tellPerson(
  organization: Organization,
  { userId }: AccessRequestView,
  text: string,
  ports: AdministrationPorts,
): Promise<void> {
  const user = await findUser(ports.db, userId);
  const page = `/dashboard/${organization.name}/my-servers`;
  await tell(organization, user ? [user.email] : [], { text, path: page }, ports);
}

/** Sends mails if the organization has a mail server. A request or decision never fails because no mail can be sent. */
async function tell(
  organization: Organization,
  recipients: readonly string[],
  item: { readonly text: string; readonly path: string },
  ports: AdministrationPorts,
): Promise<void> {
  const title = organization.title || organization.name;
  const content = { kind: 'notice' as const, organization: title, items: [item] };
  await enqueueNotices(organization, recipients, content, ports);
}

export const accessRequestOperations: readonly Operation[] = [
  requestCreate,
  requestReadOwn,
  requestWithdraw,
  requestList,
  requestRead,
  requestGrant,
  requestDecline,
];

const requestArgument = textArgument('ID', 'requestId');
const decisionPrints = ['id', 'server', 'email', 'status'] as const;

export const accessRequestCommands: readonly Command[] = [
  listCommand(requestList, {
    words: 'access-request list',
    positionals: [organizationArgument],
    doc: 'list the requests of people for access to servers',
    prints: ['id', 'server', 'email', 'reason', 'status', 'createdAt'],
    empty: ({ status }) => (status === 'decided' ? 'no decided requests' : 'no open requests'),
  }),
  command(requestGrant, {
    words: 'access-request grant',
    positionals: [organizationArgument, requestArgument, groupArgument],
    doc: 'grant a request: add the person to a group that opens the server',
    prints: [...decisionPrints, 'group'],
  }),
  command(requestDecline, {
    words: 'access-request decline',
    positionals: [organizationArgument, requestArgument],
    doc: 'decline a request, with a reason for the person',
    prints: [...decisionPrints, 'answer'],
  }),
];
