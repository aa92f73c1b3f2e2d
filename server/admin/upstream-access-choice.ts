// Converts an administrator's choice of authentication to the settings of an upstream: discovery, registration, the rule for keys.

import { isDeepStrictEqual } from 'node:util';

import { findCommands } from '#db/agents';
import { findUpstreamAccess, type UpstreamAccess } from '#db/upstream-access';
import type { ServerRecord } from '#model/endpoints';
import { keyPlace, type PersonKeyRule, usualTemplate } from '#model/person-keys';
import { takesCredentials } from '#model/upstream-kinds';
import { hostAndPort } from '#outbound/checked-addresses';
import { randomBase62 } from '#secrets/secrets';
import { UpstreamAccessError } from '#upstreams/credentials/access';
import type { DiscoveryRequest, DiscoveryResult } from '#upstreams/credentials/discovery';
import type { RegisteredClient, UpstreamSetup } from '#upstreams/credentials/setup';
import type { Actor, AdministrationPorts } from './operation.ts';
import { type AdministrationRefusal, conflict, invalidField } from './refusal.ts';

/** A choice of access. Omitted members keep their value or are discovered. */
interface AccessChoice {
  readonly kind: UpstreamAccess['kind'];
  readonly issuer?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly omitsResource?: boolean | undefined;
}

/** The server whose access is chosen, and the actor. */
interface ChosenBy {
  readonly server: ServerRecord;
  readonly actor: Actor;
}

/**
 * The access that results from a choice. If the OAuth client stays the same, the existing access is changed, so that people need
 * not connect again.
 *
 * @throws {AdministrationRefusal} `invalid` for values that are wrong or cannot be discovered, `conflict` for a server whose
 * upstream is not HTTP
 */
export async function chosenAccess(
  choice: AccessChoice,
  by: ChosenBy,
  ports: Pick<AdministrationPorts, 'db' | 'upstreamSetup' | 'clock'>,
): Promise<UpstreamAccess> {
  const { id: endpointId, target } = by.server;
  const targetId = target.id;
  const { kind } = choice;
  const { request, vouchedHosts, now } = await discoveryOf(choice, by, ports);
  const { url } = request;
  const found = await findOut(request, vouchedHosts, ports);
  const about = { now, found, vouchedHosts, server: by.server };
  const { clientId, clientSecret, registration: made } = await clientOf(choice, about, ports);
  const isKnown = now?.clientId === clientId && now.metadata.issuer === found.metadata.issuer;
  const registration = made
    ? {
        url: made.url,
        sealedToken: ports.upstreamSetup.sealRegistration({ targetId, clientId }, made.accessToken),
      }
    : isKnown
      ? now.registration
      : undefined;
  const resource = choice.omitsResource ? undefined : found.resource;
  const isSame = isKnown && now.kind === kind && now.url === url && now.resource === resource;
  const id = isSame ? now.id : `upa_${randomBase62(16)}`;
  const sealedClientSecret = clientSecret
    ? ports.upstreamSetup.sealSecret({ targetId, id }, clientSecret)
    : isSame
      ? now.sealedClientSecret
      : undefined;
  if (kind === 'client_credentials' && sealedClientSecret === undefined) {
    throw invalidField('clientSecret', 'is empty');
  }
  return {
    id,
    targetId,
    endpointId,
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
 * Sends the requests that `chosenAccess` needs to the upstream and its authorization server. Returns a setup that contains the
 * responses: it sends no requests, and refuses with `conflict` if it is asked for anything else.
 *
 * @throws {AdministrationRefusal} as `chosenAccess`
 */
export async function answeredAhead(
  choice: AccessChoice,
  by: ChosenBy,
  ports: Pick<AdministrationPorts, 'db' | 'upstreamSetup'>,
): Promise<UpstreamSetup> {
  const { upstreamSetup } = ports;
  const { request, vouchedHosts, now } = await discoveryOf(choice, by, ports);
  const found = await findOut(request, vouchedHosts, ports);
  let client: RegisteredClient | undefined;
  const recordingSetup: UpstreamSetup = {
    ...upstreamSetup,
    register: async (...of) => (client = await upstreamSetup.register(...of)),
  };
  const about = { now, found, vouchedHosts, server: by.server };
  await clientOf(choice, about, { upstreamSetup: recordingSetup });
  return {
    ...upstreamSetup,
    async discover(again) {
      // The request is built again inside the transaction: the responses are valid only for the same request.
      if (isDeepStrictEqual(again, request)) return found;
      throw conflict('the upstream was changed in the meantime: try again');
    },
    async register() {
      if (client) return client;
      throw conflict('the upstream authentication was changed in the meantime: try again');
    },
  };
}

/** A choice about each person's key. Omitted members keep their value. */
interface KeyChoice {
  readonly keyHeader?: string | undefined;
  readonly keyTemplate?: string | undefined;
  readonly keyLabel?: string | undefined;
  readonly keyHelpUrl?: string | undefined;
  readonly keyTool?: string | undefined;
}

/** The rule that results from a choice. @throws {AdministrationRefusal} `conflict` */
export async function chosenKeyRule(
  choice: KeyChoice,
  { name, target: { upstream, personKey: now } }: ServerRecord,
  { db, upstreamSetup }: Pick<AdministrationPorts, 'db' | 'upstreamSetup'>,
): Promise<PersonKeyRule> {
  if (keyPlace(upstream) === undefined) throw noKeyThere();
  if (upstream.kind === 'agent') {
    const { agentId } = upstream;
    const kind = upstreamSetup.kindAtAgent(agentId, name);
    // Commands run in a process that no agent is connected to.
    const isCommand = kind ? kind === 'stdio' : (await findCommands(db, agentId)).includes(name);
    if (isCommand) throw noKeyThere();
  }
  const header = choice.keyHeader || now?.header || 'authorization';
  const fixed = takesCredentials(upstream) ? (upstream.headers ?? []) : [];
  if (fixed.some((one) => one.name === header)) {
    const words = `a fixed header already sets ${header}, which each person’s key needs: remove that header first`;
    throw conflict(words);
  }
  const isSame = header === now?.header;
  return {
    header,
    template: choice.keyTemplate || (isSame ? now.template : usualTemplate(header)),
    label: choice.keyLabel || now?.label || 'API key',
    helpUrl: (choice.keyHelpUrl ?? now?.helpUrl) || undefined,
    tool: (choice.keyTool ?? now?.tool) || undefined,
  };
}

/** The refusal for a server that no header can be sent to. */
export function noKeyThere(): AdministrationRefusal {
  const words =
    'only an HTTP upstream, here or behind an agent, can take a key of each person: a command and a collection cannot';
  return conflict(words);
}

/** The refusal for a server whose upstream is not HTTP. */
export function onlyHttp(): AdministrationRefusal {
  const words =
    'only an HTTP upstream can have authentication, and this server has another kind of upstream';
  return conflict(words);
}

function authorizationIsFixed(): AdministrationRefusal {
  const words =
    'a fixed header already sets Authorization, which the token needs: remove that header first';
  return conflict(words);
}

/** The request for discovery, the hosts that the operator vouches for, and the current access. @throws {AdministrationRefusal} `conflict` */
async function discoveryOf(
  { kind, issuer }: AccessChoice,
  { server, actor }: ChosenBy,
  { db, upstreamSetup }: Pick<AdministrationPorts, 'db' | 'upstreamSetup'>,
) {
  const { upstream } = server.target;
  if (!takesCredentials(upstream)) throw onlyHttp();
  const { url, accessId, publicOnly, headers = [] } = upstream;
  if (headers.some(({ name }) => name === 'authorization')) throw authorizationIsFixed();
  const now = accessId === undefined ? undefined : await findUpstreamAccess(db, accessId);
  const vouchedHosts = [
    // An approval by the operator remains valid for the same upstream.
    ...(now?.url === url ? now.vouchedHosts : []),
    ...(publicOnly ? [] : [hostAndPort(new URL(url))]),
    // Only the operator may name a server inside the network.
    ...(actor.type === 'operator' && issuer && URL.canParse(issuer)
      ? [hostAndPort(new URL(issuer))]
      : []),
  ];
  const place = { targetId: server.target.id, url };
  const fixed = upstreamSetup.openHeaders(place, headers);
  const request: DiscoveryRequest = { url, kind, issuer: issuer || undefined, headers: fixed };
  return { request, vouchedHosts: [...new Set(vouchedHosts)], now };
}

/** @throws {AdministrationRefusal} `invalid`, with the reason why discovery failed */
async function findOut(
  request: DiscoveryRequest,
  vouchedHosts: readonly string[],
  { upstreamSetup }: Pick<AdministrationPorts, 'upstreamSetup'>,
): Promise<DiscoveryResult> {
  try {
    return await upstreamSetup.discover(request, vouchedHosts);
  } catch (error) {
    if (!(error instanceof UpstreamAccessError)) throw error;
    const remedy =
      error.code === 'forbidden'
        ? ': check the spelling, or ask the operator to allow it: latchkey-server outbound allow HOST:PORT'
        : '';
    throw invalidField('issuer', `cannot be used: ${error.message}${remedy}`);
  }
}

interface ClientChoice {
  readonly now: UpstreamAccess | undefined;
  readonly found: DiscoveryResult;
  readonly vouchedHosts: readonly string[];
  readonly server: ServerRecord;
}

/** The OAuth client at the authorization server: the entered one, the current one, or a newly registered one. */
async function clientOf(
  { kind, clientId, clientSecret, scopes }: AccessChoice,
  { now, found, vouchedHosts, server }: ClientChoice,
  { upstreamSetup }: Pick<AdministrationPorts, 'upstreamSetup'>,
): Promise<RegisteredClient> {
  if (clientId) return { clientId, clientSecret };
  const { metadata } = found;
  if (now?.kind === kind && now.metadata.issuer === metadata.issuer) {
    return { clientId: now.clientId, clientSecret };
  }
  if (kind === 'client_credentials') throw invalidField('clientId', 'is empty');
  const request = { metadata, scopes: scopes ?? found.scopes, server };
  try {
    return await upstreamSetup.register(request, vouchedHosts);
  } catch (error) {
    if (!(error instanceof UpstreamAccessError)) throw error;
    throw invalidField('clientId', `is empty, and ${error.message}`);
  }
}
