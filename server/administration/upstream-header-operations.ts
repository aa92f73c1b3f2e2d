import { z } from 'zod';

import type { EpochSeconds } from '#clock/clock';
import type { FixedHeader, ServerRecord, UpstreamKind } from '#organizations/server-record';
import { previousOf, withHeader, withoutPrevious } from '#upstream-access/fixed-headers';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { changeServer, checkRevision } from './change-server.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { ofServer, ownServer, serverPath } from './shown-server.ts';
import { headerFields } from './upstream-field.ts';
import { headerTarget, upstreamWith } from './upstream-header-changes.ts';

const path = `${serverPath}/upstream-headers`;
const permission = 'server.manage';
const ofHeader = { ...ofServer, header: z.string().min(1).max(100).describe('Its name') };
const headerPath = `${path}/{header}`;
const atRevision = {
  revision: z.int().optional().describe('Change it only while the server is at this revision'),
};

const shownValue = {
  hint: z.string().nullable().describe('Its last characters; null where it is too short for that'),
  setAt: fields.at,
};
const shownHeaders = z
  .object({
    server: z.string(),
    items: z.array(
      z
        .object({
          name: z.string(),
          ...shownValue,
          previous: z
            .object({ ...shownValue, until: fields.at })
            .nullable()
            .describe('Sent where the upstream refuses the present value with 401, until then'),
        })
        .meta({ id: 'FixedHeader' }),
    ),
    refusedAt: fields.maybeAt.describe(
      'When the upstream last refused the present values and took the previous ones',
    ),
    revision: z.int().describe('Of the server; another after each change'),
  })
  .meta({ id: 'FixedHeaders' });

/** The fixed headers of a server, as every surface shows them: by their names. */
export type ShownHeaders = z.output<typeof shownHeaders>;

export const headerList = organizationOperation({
  name: 'server.list-headers',
  doc: 'List the fixed headers of the requests to an HTTP upstream, without their values',
  route: { method: 'GET', path },
  permission,
  input: z.strictObject(ofServer),
  output: shownHeaders,
  run: async ({ server }, { organization }, ports) =>
    showHeaders(await ownServer(organization.name, server, ports), ports.clock.now()),
});

export const headerSet = organizationOperation({
  name: 'server.set-header',
  doc: 'Add a fixed header, or replace its value; for seven days the one before is sent where the upstream refuses the new one',
  route: { method: 'POST', path },
  permission,
  input: z.strictObject({ ...ofServer, ...headerFields, ...atRevision }),
  output: shownHeaders,
  target: ({ name, ...at }) => headerTarget({ ...at, header: name }),
  run: ({ name, value, ...at }, { organization }, ports) =>
    changeHeaders({ ...at, organization: organization.name }, ports, ({ id, upstream }) => {
      if (upstream.kind !== 'http') throw noHeadersThere();
      return upstreamWith(upstream, { serverId: id, given: [{ name, value }] }, ports);
    }),
});

export const headerRestore = organizationOperation({
  name: 'server.restore-header',
  doc: 'Send the previous value of a fixed header again; the present one becomes the previous',
  route: { method: 'POST', path: `${headerPath}/restore` },
  permission,
  input: z.strictObject({ ...ofHeader, ...atRevision }),
  output: shownHeaders,
  target: headerTarget,
  run: ({ header: name, ...at }, { organization }, ports) =>
    changeHeaders({ ...at, organization: organization.name }, ports, ({ upstream }) =>
      withHeaders(upstream, (headers) => {
        const header = named(headers, name);
        const now = ports.clock.now();
        const previous = previousOf(header, now);
        if (previous) return withHeader(headers, { ...previous, name: header.name }, now);
        throw new AdministrationRefusal('conflict', 'the header has no previous value');
      }),
    ),
});

export const headerForgetPrevious = organizationOperation({
  name: 'server.forget-previous-header',
  doc: 'Forget the previous value of a fixed header, at once and for good',
  route: { method: 'DELETE', path: `${headerPath}/previous` },
  permission,
  input: z.strictObject(ofHeader),
  output: shownHeaders,
  target: headerTarget,
  run: ({ header: name, ...at }, { organization }, ports) =>
    changeHeaders({ ...at, organization: organization.name }, ports, ({ upstream }) =>
      withHeaders(upstream, (headers) => {
        const header = named(headers, name);
        return headers.map((one) => (one === header ? withoutPrevious(one) : one));
      }),
    ),
});

export const headerRemove = organizationOperation({
  name: 'server.remove-header',
  doc: 'Send a fixed header no more, and forget its values, at once and for good',
  route: { method: 'DELETE', path: headerPath },
  permission,
  input: z.strictObject(ofHeader),
  output: shownHeaders,
  target: headerTarget,
  run: ({ header: name, ...at }, { organization }, ports) =>
    changeHeaders({ ...at, organization: organization.name }, ports, ({ upstream }) =>
      withHeaders(upstream, (headers) => {
        const header = named(headers, name);
        return headers.filter((one) => one !== header);
      }),
    ),
});

/** Changes the upstream of a server. @throws {AdministrationRefusal} */
async function changeHeaders(
  at: {
    readonly organization: string;
    readonly server: string;
    readonly revision?: number | undefined;
  },
  ports: Pick<AdministrationPorts, 'serverDirectory' | 'organizations' | 'clock'>,
  change: (now: ServerRecord) => UpstreamKind,
): Promise<ShownHeaders> {
  const changed = await changeServer(
    at,
    (now) => {
      checkRevision(now, at.revision);
      return { upstream: change(now) };
    },
    ports,
  );
  return showHeaders(changed, ports.clock.now());
}

function noHeadersThere(): AdministrationRefusal {
  const words =
    'only a server with an HTTP upstream has fixed headers, and the calls of this server go elsewhere';
  return new AdministrationRefusal('conflict', words);
}

function withHeaders(
  upstream: UpstreamKind,
  change: (headers: readonly FixedHeader[]) => readonly FixedHeader[],
): UpstreamKind {
  const headers = change(upstream.kind === 'http' ? (upstream.headers ?? []) : []);
  return upstream.kind === 'http' ? { ...upstream, headers } : upstream;
}

/** @throws {AdministrationRefusal} `not_found` */
function named(headers: readonly FixedHeader[], name: string): FixedHeader {
  const header = headers.find((one) => one.name === name.toLowerCase());
  if (header) return header;
  throw notFound('header');
}

function showHeaders(
  { name, upstream, revision = 0 }: ServerRecord,
  now: EpochSeconds,
): ShownHeaders {
  const { headers = [], headersRefusedAt } =
    upstream.kind === 'http' ? upstream : { headers: [], headersRefusedAt: undefined };
  return {
    server: name,
    items: headers.map((header) => {
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
    refusedAt: headersRefusedAt ?? null,
    revision,
  };
}
