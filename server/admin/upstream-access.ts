import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { ServerRecord } from '#model/endpoints';
import {
  findUpstreamAccess,
  removeUpstreamAccess,
  replaceUpstreamAccess,
  updateForwardsCaller,
  type UpstreamAccess,
} from '#db/upstream-access';
import { listUpstreamConnections } from '#db/upstream-connections';
import { randomBase62 } from '#secrets/secrets';
import { hostAndPort } from '#outbound/checked-addresses';
import { UpstreamAccessError } from '#upstreams/credentials/access';
import { accountPath } from '#upstreams/credentials/authorization-client';
import type { DiscoveryRequest, DiscoveryResult } from '#upstreams/credentials/discovery';
import type { RegisteredClient, UpstreamSetup } from '#upstreams/credentials/setup';
import { takesCredentials } from '#model/upstream-kinds';
import { surfaces, type FieldControl } from './fields.ts';
import { type Actor, type AdministrationPorts, organizationOperation } from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { AdministrationRefusal, invalidField } from './refusal.ts';

/** What calls to an upstream contain: nothing, one token for all callers, or a token of each person. */
const accessKinds = ['none', 'client_credentials', 'authorization_code'] as const;

/** The view of an upstream's access: on pages, in the API and in commands. */
const accessViewSchema = z
  .object({
    server: z.string(),
    kind: z.enum(accessKinds).describe('`authorization_code`: each person with their own account'),
    issuer: z.string().nullable(),
    clientId: z.string().nullable(),
    hasClientSecret: z.boolean(),
    scopes: z.array(z.string()),
    resource: z
      .string()
      .nullable()
      .describe('The resource that tokens are requested for. RFC 8707'),
    omitsResource: z.boolean().describe('Whether tokens are requested without a resource'),
    redirectPath: z.string().describe('The path of the redirect URI to register there'),
    connections: z.int().describe('How many people have connected an account'),
    forwardsCaller: z
      .boolean()
      .describe('Whether calls contain a signed assertion of the caller’s identity'),
  })
  .meta({ id: 'UpstreamAccess' });

/** `null` for values that the upstream or its authorization server does not have. */
export type AccessView = z.output<typeof accessViewSchema>;

/** Finds the access of a server's upstream. @throws {AdministrationRefusal} `not_found` */
async function toAccessView(
  organization: string,
  name: string,
  ports: Pick<AdministrationPorts, 'db'>,
): Promise<AccessView> {
  const { upstream } = (await ownServer(organization, name, ports)).target;
  const { accessId, forwardsCaller } = takesCredentials(upstream)
    ? upstream
    : { accessId: undefined, forwardsCaller: undefined };
  const access = accessId === undefined ? undefined : await findUpstreamAccess(ports.db, accessId);
  const people = access ? await listUpstreamConnections(ports.db, access.id) : [];
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
    forwardsCaller: forwardsCaller === true,
  };
}

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
async function chosenAccess(
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
async function answeredAhead(
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
      // Read again inside the transaction: the responses are valid only for the same requests.
      if (isDeepStrictEqual(again, request)) return found;
      throw new AdministrationRefusal(
        'conflict',
        'the upstream was changed in the meantime: try again',
      );
    },
    async register() {
      if (client) return client;
      throw new AdministrationRefusal(
        'conflict',
        'the upstream authentication was changed in the meantime: try again',
      );
    },
  };
}

/** The refusal for a server whose upstream is not HTTP. */
function onlyHttp(): AdministrationRefusal {
  const words =
    'only an HTTP upstream can have authentication, and this server has another kind of upstream';
  return new AdministrationRefusal('conflict', words);
}

function authorizationIsFixed(): AdministrationRefusal {
  const words =
    'a fixed header already sets Authorization, which the token needs: remove that header first';
  return new AdministrationRefusal('conflict', words);
}

/** What must be discovered, and the hosts that the operator vouches for. @throws {AdministrationRefusal} `conflict` */
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

/** @throws {AdministrationRefusal} `invalid`, with what could not be discovered */
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
      error.code === 'forbidden' ? '; the operator can allow the host with --outbound-host' : '';
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

const path = `${serverPath}/upstream-access`;
// RFC 6749 Appendix A.1, A.2, A.4
const visible = (most: number) =>
  z
    .string()
    .max(most)
    .regex(/^[\x20-\x7e]*$/, 'may contain only printable ASCII characters');
const scope = z
  .string()
  .max(200)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'must not contain spaces or quotes');

const identifier = { spellcheck: 'false', autocapitalize: 'none', autocomplete: 'off' };
/** The fields about the client that this server is there are part of the form only where it has one. */
const withToken: NonNullable<FieldControl['when']> = {
  choice: 'kind',
  is: ['client_credentials', 'authorization_code'],
  part: 'access',
};

export const accessRead = organizationOperation({
  name: 'server.read-access',
  doc: 'Read the upstream authentication of a server',
  route: { method: 'GET', path },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: accessViewSchema,
  run: async ({ server }, { organization }, ports) =>
    toAccessView(organization.name, server, ports),
});

export const accessSet = organizationOperation({
  name: 'server.set-access',
  doc: 'Set the upstream authentication of a server: no token, one token for all callers, or a token for each person',
  route: { method: 'PATCH', path },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    kind: z.enum(accessKinds).register(surfaces, {
      control: {
        kind: 'radio',
        label: 'Upstream authentication',
        subject: 'The upstream authentication',
        choices: [
          {
            value: 'none',
            text: 'No token',
            help: 'Use this for an upstream that is open or that needs only the fixed headers below.',
          },
          {
            value: 'client_credentials',
            text: 'One token for all callers',
            help: 'Latchkey requests a token with its own client ID and secret. The upstream cannot tell people apart.',
          },
          {
            value: 'authorization_code',
            text: 'Each person’s own account',
            help: 'Each person connects an account once, and only their own calls use it. API keys and applications without a person cannot call this server.',
          },
        ],
      },
    }),
    issuer: z
      .string()
      .max(2000)
      .optional()
      .describe('Discovered if omitted')
      .register(surfaces, {
        control: {
          kind: 'text',
          type: 'url',
          label: 'Authorization server',
          subject: 'The authorization server',
          help: 'The issuer URL. Leave it empty to use the one that the MCP server announces.',
          attributes: identifier,
          when: withToken,
        },
      }),
    clientId: visible(500)
      .optional()
      .describe(
        'Omit it to keep the current one; for people’s accounts, Latchkey registers a client if there is none',
      )
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Client ID',
          subject: 'The client ID',
          help: 'From the authorization server. For people’s accounts, leave it empty to register a client automatically.',
          optional: 'unmarked',
          attributes: { ...identifier, maxlength: '500' },
          when: withToken,
        },
      }),
    clientSecret: visible(2000)
      .optional()
      .describe('Omit it to keep the current one')
      .register(surfaces, {
        control: {
          kind: 'text',
          type: 'password',
          label: 'Client secret',
          subject: 'The client secret',
          help: 'Stored encrypted. You won’t see it again.',
          attributes: { autocomplete: 'off', spellcheck: 'false', maxlength: '2000' },
          when: withToken,
        },
      }),
    scopes: z
      .array(scope)
      .max(100)
      .optional()
      .describe('Those that the upstream announces if omitted')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Scopes',
          subject: 'A scope',
          help: 'Separated by spaces. Leave it empty to use the scopes that the MCP server announces.',
          attributes: identifier,
          entries: { between: 'spaces' },
          when: withToken,
        },
      }),
    omitsResource: z
      .boolean()
      .optional()
      .describe(
        'For an authorization server that refuses `resource`: other servers may accept its tokens',
      )
      .register(surfaces, {
        control: {
          kind: 'checkbox',
          name: 'omits',
          group: { name: 'resource', label: 'Resource' },
          label: 'Request tokens without a resource',
          help: 'Only if the authorization server answers invalid_target. The tokens are then not bound to this MCP server, which could use them at other servers.',
          when: withToken,
        },
      }),
    forwardsCaller: z
      .boolean()
      .optional()
      .describe('Omit it to keep the current setting')
      .register(surfaces, {
        control: {
          kind: 'checkbox',
          name: 'tells',
          group: { name: 'caller', label: 'Caller identity' },
          label: 'Forward caller identity',
        },
      }),
  }),
  output: accessViewSchema,
  target: serverTarget,
  async ahead(input, { organization, actor }, ports) {
    const { kind } = input;
    const { upstreamSetup } = ports;
    const server = await ownServer(organization.name, input.server, ports);
    if (kind === 'none' || !takesCredentials(server.target.upstream)) return { upstreamSetup };
    return { upstreamSetup: await answeredAhead({ ...input, kind }, { server, actor }, ports) };
  },
  async run(input, { organization, actor }, ports) {
    const server = await ownServer(organization.name, input.server, ports);
    const { kind, forwardsCaller } = input;
    if (!takesCredentials(server.target.upstream)) {
      if (kind !== 'none' || forwardsCaller) throw onlyHttp();
    } else if (kind === 'none') {
      await removeUpstreamAccess(ports.db, server.target.id);
    } else {
      const access = await chosenAccess({ ...input, kind }, { server, actor }, ports);
      if (!(await replaceUpstreamAccess(ports.db, access))) {
        throw new AdministrationRefusal(
          'conflict',
          'the upstream was changed in the meantime: try again',
        );
      }
    }
    if (forwardsCaller !== undefined) {
      await updateForwardsCaller(ports.db, server.target.id, forwardsCaller);
    }
    return toAccessView(organization.name, input.server, ports);
  },
});
