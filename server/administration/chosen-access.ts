import { isDeepStrictEqual } from 'node:util';

import { randomBase62 } from '#credentials/secret-format';
import type { ServerRecord } from '#organizations/server-record';
import { hostAndPort } from '#outbound/checked-addresses';
import type { DiscoverWish, Found } from '#upstream-access/discover';
import type { IntroducedClient } from '#upstream-access/introduce-client';
import type { UpstreamAccess } from '#upstream-access/upstream-access';
import { UpstreamAccessError } from '#upstream-access/upstream-access-error';
import type { UpstreamSetup } from '#upstream-access/upstream-setup';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, invalidField } from './administration-refusal.ts';

/** How an upstream is to be asked. What is not given stays, or is found out. */
export interface AccessChoice {
  readonly kind: UpstreamAccess['kind'];
  readonly issuer?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly omitsResource?: boolean | undefined;
}

/** Whose upstream it is, and who chooses. */
export interface ChosenBy {
  readonly server: ServerRecord;
  readonly actor: Actor;
}

/**
 * What an upstream is asked with from now on: the access that it has, with what is new in it, where it is about the same
 * client there, so that nobody has to connect again.
 *
 * @throws {AdministrationRefusal} `invalid` for what is wrong or cannot be found out, `conflict` for a server that is not HTTP
 */
export async function chosenAccess(
  choice: AccessChoice,
  by: ChosenBy,
  ports: Pick<AdministrationPorts, 'upstreamAccesses' | 'upstreamSetup' | 'clock'>,
): Promise<UpstreamAccess> {
  const { id: serverId } = by.server;
  const { kind } = choice;
  const { wish, vouchedHosts, now } = await wishOf(choice, by, ports);
  const { url } = wish;
  const found = await findOut(wish, vouchedHosts, ports);
  const about = { now, found, vouchedHosts, server: by.server };
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

/**
 * Asks the upstream and its authorization server now what `chosenAccess` will want to know of them, and gives a setup
 * that has those answers: it asks nobody, and refuses with `conflict` where the question has become another.
 *
 * @throws {AdministrationRefusal} as `chosenAccess`
 */
export async function answeredAhead(
  choice: AccessChoice,
  by: ChosenBy,
  ports: Pick<AdministrationPorts, 'upstreamAccesses' | 'upstreamSetup'>,
): Promise<UpstreamSetup> {
  const { upstreamSetup } = ports;
  const { wish, vouchedHosts, now } = await wishOf(choice, by, ports);
  const found = await findOut(wish, vouchedHosts, ports);
  let client: IntroducedClient | undefined;
  const asked: UpstreamSetup = {
    ...upstreamSetup,
    introduce: async (...of) => (client = await upstreamSetup.introduce(...of)),
  };
  const about = { now, found, vouchedHosts, server: by.server };
  await clientOf(choice, about, { upstreamSetup: asked });
  return {
    ...upstreamSetup,
    async discover(again) {
      // Looked at anew inside the transaction: what was found out is about that, or about nothing.
      if (isDeepStrictEqual(again, wish)) return found;
      throw new AdministrationRefusal('conflict', 'where its calls go was changed meanwhile');
    },
    async introduce() {
      if (client) return client;
      throw new AdministrationRefusal('conflict', 'how it is asked was changed meanwhile');
    },
  };
}

/** Said of a server whose calls go elsewhere than to an HTTP upstream. */
export function onlyHttp(): AdministrationRefusal {
  const words = 'only an HTTP server can want this, and the calls of this server go elsewhere';
  return new AdministrationRefusal('conflict', words);
}

function authorizationIsFixed(): AdministrationRefusal {
  const words =
    'a fixed header sends Authorization already, where the token would go: remove the header first';
  return new AdministrationRefusal('conflict', words);
}

/** What is to be found out, and whose hosts the operator vouches for. @throws {AdministrationRefusal} `conflict` */
async function wishOf(
  { kind, issuer }: AccessChoice,
  { server, actor }: ChosenBy,
  {
    upstreamAccesses,
    upstreamSetup,
  }: Pick<AdministrationPorts, 'upstreamAccesses' | 'upstreamSetup'>,
) {
  const { upstream } = server;
  if (upstream.kind !== 'http') throw onlyHttp();
  const { url, accessId, publicOnly, headers = [] } = upstream;
  if (headers.some(({ name }) => name === 'authorization')) throw authorizationIsFixed();
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
  const place = { serverId: server.id, url };
  const fixed = upstreamSetup.openHeaders(place, headers);
  const wish: DiscoverWish = { url, kind, issuer: issuer || undefined, headers: fixed };
  return { wish, vouchedHosts: [...new Set(vouchedHosts)], now };
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

interface ClientChoice {
  readonly now: UpstreamAccess | undefined;
  readonly found: Found;
  readonly vouchedHosts: readonly string[];
  readonly server: ServerRecord;
}

/** Whom its authorization server knows us as: as it was typed, as it was, or as we introduce ourselves there. */
async function clientOf(
  { kind, clientId, clientSecret, scopes }: AccessChoice,
  { now, found, vouchedHosts, server }: ClientChoice,
  { upstreamSetup }: Pick<AdministrationPorts, 'upstreamSetup'>,
): Promise<IntroducedClient> {
  if (clientId) return { clientId, clientSecret };
  const { metadata } = found;
  if (now?.kind === kind && now.metadata.issuer === metadata.issuer) {
    return { clientId: now.clientId, clientSecret };
  }
  if (kind === 'client_credentials') throw invalidField('clientId', 'is empty');
  const place = { organization: server.organization, server: server.name };
  const client = { metadata, scopes: scopes ?? found.scopes, place };
  try {
    return await upstreamSetup.introduce(client, vouchedHosts);
  } catch (error) {
    if (!(error instanceof UpstreamAccessError)) throw error;
    throw invalidField('clientId', `is empty, and ${error.message}`);
  }
}
