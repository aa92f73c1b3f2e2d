import { z } from 'zod';
import type { EpochSeconds } from '#model/clock';
import { type FixedHeader, headerFields, maxHeaders } from '#model/fixed-headers';
import type { ServerRecord, Target } from '#model/endpoints';
import {
  headerHint,
  headersKeptFor,
  previousOf,
  withHeader,
  withoutPrevious,
} from '#upstreams/credentials/fixed-headers';
import { takesCredentials, type UpstreamKind } from '#model/upstream-kinds';
import { fields, surfaces, identifier } from './fields.ts';
import {
  type Actor,
  type AdministrationPorts,
  noteDone,
  type Operation,
  organizationOperation,
  type WithDbAndClock,
} from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { type AdministrationRefusal, conflict, notFound } from './refusal.ts';
import { changeServer, checkRevision } from './server-settings.ts';

const path = `${serverPath}/upstream-headers`;
const permission = 'server.manage';
const ofHeader = {
  ...ofServer,
  header: z.string().min(1).max(100).describe('The name of the header'),
};
const headerPath = `${path}/{header}`;
const atRevision = {
  revision: z.int().optional().describe('Change it only if the server still has this revision'),
};

const headerValueFields = {
  hint: z
    .string()
    .nullable()
    .describe('The last characters; null if the value is too short to show any'),
  setAt: fields.at,
};
const headersViewSchema = z
  .object({
    server: z.string(),
    items: z.array(
      z
        .object({
          name: z.string(),
          ...headerValueFields,
          previous: z
            .object({ ...headerValueFields, until: fields.at })
            .nullable()
            .describe('Sent until then, if the upstream refuses the current value with 401'),
        })
        .meta({ id: 'FixedHeader' }),
    ),
    refusedAt: fields.maybeAt.describe(
      'When the upstream last refused the current values and accepted the previous ones',
    ),
    revision: z.int().describe('The revision of the server; it differs after each change'),
  })
  .meta({ id: 'FixedHeaders' });

/** The view of a server's fixed headers, without their values. */
export type HeadersView = z.output<typeof headersViewSchema>;

export const headerList = organizationOperation({
  name: 'server.list-headers',
  doc: 'List the fixed headers of the requests to an HTTP upstream, without their values',
  route: { method: 'GET', path },
  permission,
  input: z.strictObject(ofServer),
  output: headersViewSchema,
  run: async ({ server }, { organization }, ports) =>
    toHeadersView(await ownServer(organization.name, server, ports), ports.clock.now()),
});

export const headerSet = organizationOperation({
  name: 'server.set-header',
  doc: 'Add a fixed header, or replace its value; for seven days, the previous value is sent if the upstream refuses the new one',
  route: { method: 'POST', path },
  permission,
  input: z.strictObject({
    ...ofServer,
    name: headerFields.name.clone().register(surfaces, {
      control: {
        kind: 'text',
        name: 'headerName',
        label: 'Header',
        subject: 'The name',
        help: 'Example: X-Api-Key',
        attributes: { ...identifier, maxlength: '100' },
      },
    }),
    value: headerFields.value.clone().register(surfaces, {
      control: {
        kind: 'text',
        type: 'password',
        name: 'headerValue',
        label: 'Value',
        subject: 'The value',
        help: 'The whole value, including Bearer or Basic if the MCP server expects it. When you replace a value, the previous one is kept for seven days and used if the new one is refused.',
        attributes: { autocomplete: 'off', spellcheck: 'false', maxlength: '4096' },
      },
    }),
    ...atRevision,
  }),
  output: headersViewSchema,
  target: ({ name, ...at }) => headerTarget({ ...at, header: name }),
  run: ({ name, value, ...at }, { organization }, ports) =>
    changeHeaders(
      { ...at, organization: organization.name },
      ports,
      ({ target: { id, upstream, personKey } }) => {
        if (!takesCredentials(upstream)) throw noHeadersThere();
        const given = { targetId: id, given: [{ name, value }], keyHeader: personKey?.header };
        return upstreamWith(upstream, given, ports);
      },
    ),
});

export const headerRestore = organizationOperation({
  name: 'server.restore-header',
  doc: 'Send the previous value of a fixed header again; the current one becomes the previous',
  route: { method: 'POST', path: `${headerPath}/restore` },
  permission,
  input: z.strictObject({ ...ofHeader, ...atRevision }),
  output: headersViewSchema,
  target: headerTarget,
  run: ({ header: name, ...at }, { organization }, ports) =>
    changeHeader({ ...at, organization: organization.name }, name, ports, (headers, header) => {
      const now = ports.clock.now();
      const previous = previousOf(header, now);
      if (previous) return withHeader(headers, { ...previous, name: header.name }, now);
      throw conflict('the header has no previous value');
    }),
});

export const headerForgetPrevious = organizationOperation({
  name: 'server.forget-previous-header',
  doc: 'Forget the previous value of a fixed header immediately; this cannot be undone',
  route: { method: 'DELETE', path: `${headerPath}/previous` },
  permission,
  input: z.strictObject(ofHeader),
  output: headersViewSchema,
  target: headerTarget,
  run: ({ header: name, ...at }, { organization }, ports) =>
    changeHeader({ ...at, organization: organization.name }, name, ports, (headers, header) =>
      headers.map((one) => (one === header ? withoutPrevious(one) : one)),
    ),
});

export const headerRemove = organizationOperation({
  name: 'server.remove-header',
  doc: 'Remove a fixed header and its values immediately; this cannot be undone',
  route: { method: 'DELETE', path: headerPath },
  permission,
  input: z.strictObject(ofHeader),
  output: headersViewSchema,
  target: headerTarget,
  run: ({ header: name, ...at }, { organization }, ports) =>
    changeHeader({ ...at, organization: organization.name }, name, ports, (headers, header) =>
      headers.filter((one) => one !== header),
    ),
});

export const headerOperations: readonly Operation[] = [
  headerList,
  headerSet,
  headerRestore,
  headerForgetPrevious,
  headerRemove,
];

interface HeadersPlace {
  readonly organization: string;
  readonly server: string;
  readonly revision?: number | undefined;
}

/** Changes the upstream of a server. @throws {AdministrationRefusal} */
async function changeHeaders(
  at: HeadersPlace,
  ports: WithDbAndClock,
  change: (now: ServerRecord) => UpstreamKind,
): Promise<HeadersView> {
  const changed = await changeServer(
    at,
    (now) => {
      checkRevision(now, at.revision);
      return { upstream: change(now) };
    },
    ports,
  );
  return toHeadersView(changed, ports.clock.now());
}

function noHeadersThere(): AdministrationRefusal {
  const words =
    'only an HTTP upstream can have fixed headers, and this server has another kind of upstream';
  return conflict(words);
}

/** Changes the headers of a server that has a header with this name. @throws {AdministrationRefusal} `not_found` */
function changeHeader(
  at: HeadersPlace,
  name: string,
  ports: WithDbAndClock,
  change: (headers: readonly FixedHeader[], header: FixedHeader) => readonly FixedHeader[],
): Promise<HeadersView> {
  return changeHeaders(at, ports, ({ target: { upstream } }) => {
    const present = headersIn(upstream);
    const header = present.find((one) => one.name === name.toLowerCase());
    if (!header) throw notFound('header');
    const headers = change(present, header);
    return takesCredentials(upstream) ? { ...upstream, headers } : upstream;
  });
}

function toHeadersView(
  { name, target: { upstream }, revision = 0 }: ServerRecord,
  now: EpochSeconds,
): HeadersView {
  const refusedAt = takesCredentials(upstream) ? upstream.headersRefusedAt : undefined;
  return {
    server: name,
    items: headersIn(upstream).map((header) => {
      const previous = previousOf(header, now);
      return {
        name: header.name,
        hint: header.hint ?? null,
        setAt: header.setAt,
        previous: previous
          ? { hint: previous.hint ?? null, setAt: previous.setAt, until: previous.until }
          : null,
      };
    }),
    refusedAt: refusedAt ?? null,
    revision,
  };
}

/** A fixed header as entered. */
export interface GivenHeader {
  readonly name: string;
  readonly value: string;
}

/** The names of a server's fixed headers. */
export function headersOf({ upstream }: Pick<Target, 'upstream'>): readonly string[] {
  return headersIn(upstream).map(({ name }) => name);
}

function headersIn(upstream: UpstreamKind): readonly FixedHeader[] {
  return takesCredentials(upstream) ? (upstream.headers ?? []) : [];
}

/**
 * Adds fixed headers to an upstream: those of the upstream `before` if the origin is the same, and the given ones. A header that
 * already has the given value does not change, so that repeating a request does not lose its previous value.
 *
 * @throws {AdministrationRefusal} `conflict` for too many headers, and for a header that contains a token or each person’s key
 */
export function upstreamWith(
  upstream: UpstreamKind,
  {
    targetId,
    before = upstream,
    given = [],
    keyHeader,
  }: {
    targetId: string;
    before?: UpstreamKind;
    given?: readonly GivenHeader[] | undefined;
    /** The header that contains each person's key. */
    keyHeader?: string | undefined;
  },
  { upstreamSetup, clock }: Pick<AdministrationPorts, 'upstreamSetup' | 'clock'>,
): UpstreamKind {
  if (!takesCredentials(upstream)) return upstream;
  const { url } = upstream;
  const earlier = takesCredentials(before) ? before : undefined;
  const accessId = earlier?.url === url ? earlier.accessId : undefined;
  let headers: readonly FixedHeader[] = earlier ? headersKeptFor(earlier, upstream) : [];
  for (const { name, value } of given) {
    if (name === 'authorization' && accessId !== undefined) throw authorizationIsToken();
    if (name === keyHeader) throw headerIsKey(name);
    const present = headers.filter((header) => header.name === name);
    if (upstreamSetup.openHeaders({ targetId, url }, present)[name] === value) continue;
    const sealed = upstreamSetup.sealHeader({ targetId, name, url }, value);
    const now = clock.now();
    headers = withHeader(headers, { name, sealed, hint: headerHint(value), setAt: now }, now);
  }
  if (headers.length > maxHeaders) {
    throw conflict(`the server already has ${maxHeaders} fixed headers: remove one first`);
  }
  return { ...upstream, headers };
}

/** Audits each header, by name, that an operation other than `server.set-header` or `server.remove-header` set or removed. */
export async function noteHeaders(
  { set = [], removed = [] }: { set?: readonly string[]; removed?: readonly string[] },
  { server, actor }: { server: ServerRecord; actor: Actor },
  ports: WithDbAndClock,
): Promise<void> {
  const { organization, name } = server;
  const at = { organization: { name: organization }, actor };
  const happened = [
    ...set.map((header) => ['server.set-header', header] as const),
    ...removed.map((header) => ['server.remove-header', header] as const),
  ];
  for (const [action, header] of happened) {
    const target = headerTarget({ organization, server: name, header });
    await noteDone({ action, target }, at, ports);
  }
}

/** The target of a fixed header in the audit log. */
function headerTarget({
  header,
  ...at
}: Parameters<typeof serverTarget>[0] & { header: string }): string {
  return `header:${header} ${serverTarget(at)}`;
}

function headerIsKey(name: string): AdministrationRefusal {
  const words = `${name} contains each person’s own key: choose another kind of upstream authentication first`;
  return conflict(words);
}

function authorizationIsToken(): AdministrationRefusal {
  const words =
    'the upstream authentication already sends a token in Authorization: set it to none first, or use another header';
  return conflict(words);
}
