import { isDeepStrictEqual } from 'node:util';

import { z } from 'zod';

import { randomBase62 } from '#credentials/secret-format';
import type { ServerRecord } from '#organizations/server-record';
import { hostAndPort } from '#outbound/checked-addresses';
import type { DiscoverWish, Found } from '#upstream-access/discover';
import type { ClientPlace } from '#upstream-access/client-document';
import type { IntroducedClient } from '#upstream-access/introduce-client';
import { accountPath } from '#upstream-access/account-path';
import type { UpstreamAccess } from '#upstream-access/upstream-access';
import { UpstreamAccessError } from '#upstream-access/upstream-access-error';
import type { UpstreamSetup } from '#upstream-access/upstream-setup';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, invalidField } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { ownServer } from './shown-server.ts';

const ofServer = { organization: fields.organization, server: fields.server };
const path = '/organizations/{organization}/servers/{server}/upstream-access';
const target = ({ organization, server }: { organization: string; server: string }) =>
  `server:${organization}/${server}`;

const kinds = ['none', 'client_credentials', 'authorization_code'] as const;
// RFC 6749 Appendix A.1, A.2, A.4
const visible = (most: number) =>
  z
    .string()
    .max(most)
    .regex(/^[\x20-\x7e]*$/, 'may hold printable ASCII alone');
const scope = z
  .string()
  .max(200)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'is not one word');

const shownAccess = z
  .object({
    server: z.string(),
    kind: z.enum(kinds).describe('`authorization_code`: each person by an account of their own'),
    issuer: z.string().nullable(),
    clientId: z.string().nullable(),
    hasClientSecret: z.boolean(),
    scopes: z.array(z.string()),
    resource: z.string().nullable().describe('What tokens are asked for. RFC 8707'),
    omitsResource: z.boolean().describe('Whether tokens are asked for without saying for what'),
    redirectPath: z.string().describe('The path of the redirect URI to register there'),
    connections: z.int().describe('How many people have connected an account'),
    tellsCallers: z.boolean().describe('Whether calls carry a signed assertion of who calls'),
  })
  .meta({ id: 'UpstreamAccess' });

export type ShownAccess = z.output<typeof shownAccess>;

export const accessRead = organizationOperation({
  name: 'server.read-access',
  doc: 'Read what the MCP server behind an endpoint wants before it answers',
  route: { method: 'GET', path },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: shownAccess,
  run: async ({ server }, { organization }, ports) => shown(organization.name, server, ports),
});

export const accessSet = organizationOperation({
  name: 'server.set-access',
  doc: 'Say how the MCP server behind an endpoint is to be asked: with nothing, with a token for all, with each person’s own',
  route: { method: 'PATCH', path },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    kind: z.enum(kinds),
    issuer: z.string().max(2000).optional().describe('Found by itself unless given'),
    clientId: visible(500)
      .optional()
      .describe(
        'Stays unless given; for people’s accounts we introduce ourselves where there is none',
      ),
    clientSecret: visible(2000).optional().describe('Stays unless given'),
    scopes: z.array(scope).max(100).optional().describe('What the upstream asks for unless given'),
    omitsResource: z
      .boolean()
      .optional()
      .describe(
        'For an authorization server that refuses `resource`: other servers may take its tokens',
      ),
    tellsCallers: z.boolean().optional().describe('Stays unless given'),
  }),
  output: shownAccess,
  target,
  async ahead({ kind, ...input }, { organization, actor }, ports) {
    const { upstreamSetup } = ports;
    const server = await ownServer(organization.name, input.server, ports);
    if (kind === 'none' || server.upstream.kind !== 'http') return { upstreamSetup };
    const choice = { ...input, kind };
    const { wish, vouchedHosts, now } = await wishOf(choice, { server, actor }, ports);
    const found = await findOut(wish, vouchedHosts, ports);
    const about = { now, found, vouchedHosts, place: input };
    let client: IntroducedClient | undefined;
    const asked: UpstreamSetup = {
      ...upstreamSetup,
      introduce: async (...of) => (client = await upstreamSetup.introduce(...of)),
    };
    await clientOf(choice, about, { upstreamSetup: asked });
    const introduce = async () => {
      if (client) return client;
      throw new AdministrationRefusal('conflict', 'how it is asked was changed meanwhile');
    };
    const discover = async (again: DiscoverWish) => {
      // Looked at anew inside the transaction: what was found out is about that, or about nothing.
      if (isDeepStrictEqual(again, wish)) return found;
      throw new AdministrationRefusal('conflict', 'where its calls go was changed meanwhile');
    };
    return { upstreamSetup: { ...upstreamSetup, discover, introduce } };
  },
  async run(input, { organization, actor }, ports) {
    const server = await ownServer(organization.name, input.server, ports);
    const { kind, tellsCallers } = input;
    if (server.upstream.kind !== 'http') {
      if (kind !== 'none' || tellsCallers) throw onlyHttp();
    } else if (kind === 'none') {
      await ports.upstreamAccesses.clear(server.id);
    } else {
      const choice = { ...input, kind };
      const access = await chosenAccess(choice, { server, actor, place: input }, ports);
      if (!(await ports.upstreamAccesses.set(access))) {
        throw new AdministrationRefusal('conflict', 'where its calls go was changed meanwhile');
      }
    }
    if (tellsCallers !== undefined) {
      await ports.upstreamAccesses.setTellsCallers(server.id, tellsCallers);
    }
    return shown(organization.name, input.server, ports);
  },
});

interface Choice {
  readonly kind: UpstreamAccess['kind'];
  readonly issuer?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly omitsResource?: boolean | undefined;
}

/** What is to be found out, and whose hosts the operator vouches for. @throws {AdministrationRefusal} `invalid` */
async function wishOf(
  { kind, issuer }: Choice,
  { server, actor }: { server: ServerRecord; actor: Actor },
  { upstreamAccesses }: Pick<AdministrationPorts, 'upstreamAccesses'>,
) {
  const { upstream } = server;
  if (upstream.kind !== 'http') throw onlyHttp();
  const { url, accessId, publicOnly } = upstream;
  const now = accessId === undefined ? undefined : await upstreamAccesses.byId(accessId);
  const vouchedHosts = [
    // What the operator vouched for stays so, for the same upstream, whoever saves it again.
    ...(now?.url === url ? now.vouchedHosts : []),
    ...(publicOnly ? [] : [hostAndPort(new URL(url))]),
    // The operator may name a server inside the network, and nobody else.
    ...(actor.type === 'operator' && issuer && URL.canParse(issuer)
      ? [hostAndPort(new URL(issuer))]
      : []),
  ];
  const wish: DiscoverWish = { url, kind, issuer: issuer || undefined };
  return { wish, vouchedHosts: [...new Set(vouchedHosts)], now };
}

/** The same one with what is new in it where it is about the same client there, so that nobody has to connect again. */
async function chosenAccess(
  choice: Choice,
  { server, actor, place }: { server: ServerRecord; actor: Actor; place: ClientPlace },
  ports: Pick<AdministrationPorts, 'upstreamAccesses' | 'upstreamSetup' | 'clock'>,
): Promise<UpstreamAccess> {
  const { id: serverId } = server;
  const { kind } = choice;
  const { wish, vouchedHosts, now } = await wishOf(choice, { server, actor }, ports);
  const { url } = wish;
  const found = await findOut(wish, vouchedHosts, ports);
  const about = { now, found, vouchedHosts, place };
  const { clientId, clientSecret, registration: made } = await clientOf(choice, about, ports);
  const isKnown = now?.clientId === clientId && now.metadata.issuer === found.metadata.issuer;
  const registration = made
    ? {
        url: made.url,
        sealedToken: ports.upstreamSetup.sealRegistration({ serverId, clientId }, made.accessToken),
      }
    : isKnown
      ? now.registration
      : undefined;
  const resource = choice.omitsResource ? undefined : found.resource;
  const isSame = isKnown && now.kind === kind && now.url === url && now.resource === resource;
  const id = isSame ? now.id : `upa_${randomBase62(16)}`;
  const sealedClientSecret = clientSecret
    ? ports.upstreamSetup.sealSecret({ serverId, id }, clientSecret)
    : isSame
      ? now.sealedClientSecret
      : undefined;
  if (kind === 'client_credentials' && sealedClientSecret === undefined) {
    throw invalidField('clientSecret', 'is empty');
  }
  return {
    id,
    serverId,
    kind,
    url,
    metadata: found.metadata,
    resource,
    clientId,
    sealedClientSecret,
    scopes: choice.scopes ?? found.scopes,
    vouchedHosts,
    createdAt: isSame ? now.createdAt : ports.clock.now(),
    registration,
  };
}

interface ClientChoice {
  readonly now: UpstreamAccess | undefined;
  readonly found: Found;
  readonly vouchedHosts: readonly string[];
  readonly place: ClientPlace;
}

/** Whom its authorization server knows us as: as it was typed, as it was, or as we introduce ourselves there. */
async function clientOf(
  { kind, clientId, clientSecret, scopes }: Choice,
  { now, found, vouchedHosts, place: { organization, server } }: ClientChoice,
  { upstreamSetup }: Pick<AdministrationPorts, 'upstreamSetup'>,
): Promise<IntroducedClient> {
  if (clientId) return { clientId, clientSecret };
  const { metadata } = found;
  if (now?.kind === kind && now.metadata.issuer === metadata.issuer) {
    return { clientId: now.clientId, clientSecret };
  }
  if (kind === 'client_credentials') throw invalidField('clientId', 'is empty');
  const client = { metadata, scopes: scopes ?? found.scopes, place: { organization, server } };
  try {
    return await upstreamSetup.introduce(client, vouchedHosts);
  } catch (error) {
    if (!(error instanceof UpstreamAccessError)) throw error;
    throw invalidField('clientId', `is empty, and ${error.message}`);
  }
}

/** @throws {AdministrationRefusal} `invalid`, saying what could not be found out */
async function findOut(
  wish: DiscoverWish,
  vouchedHosts: readonly string[],
  { upstreamSetup }: Pick<AdministrationPorts, 'upstreamSetup'>,
): Promise<Found> {
  try {
    return await upstreamSetup.discover(wish, vouchedHosts);
  } catch (error) {
    if (!(error instanceof UpstreamAccessError)) throw error;
    const remedy =
      error.code === 'forbidden' ? '; --outbound-host allows a host of this network' : '';
    throw invalidField('issuer', `cannot be used: ${error.message}${remedy}`);
  }
}

async function shown(
  organization: string,
  name: string,
  ports: Pick<
    AdministrationPorts,
    'organizations' | 'upstreamAccesses' | 'upstreamConnectionDirectory'
  >,
): Promise<ShownAccess> {
  const { upstream } = await ownServer(organization, name, ports);
  const { accessId, tellsCallers } =
    upstream.kind === 'http' ? upstream : { accessId: undefined, tellsCallers: undefined };
  const access = accessId === undefined ? undefined : await ports.upstreamAccesses.byId(accessId);
  const people = access ? await ports.upstreamConnectionDirectory.list(access.id) : [];
  return {
    server: name,
    kind: access?.kind ?? 'none',
    issuer: access?.metadata.issuer ?? null,
    clientId: access?.clientId ?? null,
    hasClientSecret: access?.sealedClientSecret !== undefined,
    scopes: [...(access?.scopes ?? [])],
    resource: access?.resource ?? null,
    omitsResource: access !== undefined && access.resource === undefined,
    redirectPath: `${accountPath({ organization, name })}/callback`,
    connections: people.length,
    tellsCallers: tellsCallers === true,
  };
}

function onlyHttp(): AdministrationRefusal {
  const words = 'only an HTTP server can want this, and the calls of this server go elsewhere';
  return new AdministrationRefusal('conflict', words);
}
