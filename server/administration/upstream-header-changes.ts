import type { FixedHeader, ServerRecord, UpstreamKind } from '#organizations/server-record';
import {
  headerHint,
  headersKeptFor,
  mostHeaders,
  withHeader,
} from '#upstream-access/fixed-headers';
import { actorName, type Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal } from './administration-refusal.ts';
import { serverTarget } from './shown-server.ts';

/** A fixed header as somebody enters it. */
export interface GivenHeader {
  readonly name: string;
  readonly value: string;
}

/** The names of a server's fixed headers. */
export function headersOf({ upstream }: Pick<ServerRecord, 'upstream'>): readonly string[] {
  return upstream.kind === 'http' ? (upstream.headers ?? []).map(({ name }) => name) : [];
}

/**
 * An upstream with the fixed headers that the one `before` has for the same origin, and those that are given. One that
 * has this value already stays as it is, so that a request that is sent twice loses no previous value.
 *
 * @throws {AdministrationRefusal} `conflict` for too many, and for `Authorization` where the upstream gets a token
 */
export function upstreamWith(
  upstream: UpstreamKind,
  {
    serverId,
    before = upstream,
    given = [],
  }: { serverId: string; before?: UpstreamKind; given?: readonly GivenHeader[] | undefined },
  { upstreamSetup, clock }: Pick<AdministrationPorts, 'upstreamSetup' | 'clock'>,
): UpstreamKind {
  if (upstream.kind !== 'http') return upstream;
  const { url } = upstream;
  const accessId = before.kind === 'http' && before.url === url ? before.accessId : undefined;
  let headers: readonly FixedHeader[] = headersKeptFor(before, upstream);
  for (const { name, value } of given) {
    if (name === 'authorization' && accessId !== undefined) throw authorizationIsToken();
    const present = headers.filter((header) => header.name === name);
    if (upstreamSetup.openHeaders({ serverId, url }, present)[name] === value) continue;
    const sealed = upstreamSetup.sealHeader({ serverId, name, url }, value);
    const now = clock.now();
    headers = withHeader(headers, { name, sealed, hint: headerHint(value), setAt: now }, now);
  }
  if (headers.length > mostHeaders) {
    const why = `the server has ${mostHeaders} fixed headers already: remove one first`;
    throw new AdministrationRefusal('conflict', why);
  }
  return { ...upstream, headers };
}

/** Writes down each header that was set or removed by something else than its own operation, by its name. */
export async function noteHeaders(
  { set = [], removed = [] }: { set?: readonly string[]; removed?: readonly string[] },
  { server, actor }: { server: ServerRecord; actor: Actor },
  { audit, clock }: Pick<AdministrationPorts, 'audit' | 'clock'>,
): Promise<void> {
  const { organization, name } = server;
  const happened = [
    ...set.map((header) => ['server.set-header', header] as const),
    ...removed.map((header) => ['server.remove-header', header] as const),
  ];
  for (const [action, header] of happened) {
    await audit.append({
      at: clock.now(),
      actor: actorName(actor),
      organization,
      action,
      target: headerTarget({ organization, server: name, header }),
      address: actor.address,
      requestId: actor.requestId,
      outcome: 'done',
    });
  }
}

/** What the audit log calls a fixed header. */
export function headerTarget({
  header,
  ...at
}: Parameters<typeof serverTarget>[0] & { header: string }): string {
  return `header:${header} ${serverTarget(at)}`;
}

function authorizationIsToken(): AdministrationRefusal {
  const words =
    'the authorization of this server sends a token in Authorization already: set it to none first, or use another header';
  return new AdministrationRefusal('conflict', words);
}
