import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import type { IdentityProvider } from '#accounts/openid-provider';
import { usableProvider } from '#accounts/organization-providers';
import { endByProvider, type NamedPlace } from '#accounts/provider-logouts';
import { logoutPathOf } from '#accounts/provider-setup';
import { placeKey } from '#db/provider-sessions';
import { networkOf } from '#model/networks';
import { parseForm } from '#oauth/forms';
import { OAuthError } from '#oauth/oauth-error';
import { bodyOf } from './page-request.ts';
import { type PageRequest, visitOf } from './page-session.ts';
import type { PeoplePorts, PeopleRoutesOptions } from './sign-in-routes.ts';

/** A provider that may announce logouts. */
interface Announcer extends NamedPlace {
  readonly client: Pick<IdentityProvider, 'readLogout'>;
}

type FindAnnouncer = (request: PageRequest, people: PeoplePorts) => Promise<Announcer | undefined>;

/**
 * Identity providers announce here that a session of a person there has ended, or all of them. Each provider has a path of its own. Providers
 * send no cookie; a logout token is accepted because it is signed. An unknown provider gets the same answer as an invalid token. A network
 * that sends many invalid tokens for a provider is refused for a while; other networks are not.
 *
 * OpenID Connect Back-Channel Logout 1.0 §2.5, §2.8
 */
export function providerLogoutRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  app.post(logoutPathOf(':providerId'), (request: PageRequest, reply) =>
    takeLogout(ownAnnouncer, request, reply, options),
  );
  app.post(logoutPathOf(), (request: PageRequest, reply) =>
    takeLogout(installationAnnouncer, request, reply, options),
  );
}

const ownAnnouncer: FindAnnouncer = async ({ params }, { db, providerSetup }) => {
  try {
    const provider = await usableProvider(db, params['providerId'] ?? '');
    const { id: providerId, organizationId, organization } = provider;
    const place = { type: 'organization', providerId, organizationId } as const;
    return { place, organization, client: providerSetup.clientOf(provider) };
  } catch (error) {
    if (error instanceof AccountRefusal && error.code === 'provider_unknown') return undefined;
    throw error;
  }
};

const installationAnnouncer: FindAnnouncer = async (_request, { identityProvider }) => {
  if (!identityProvider) return undefined;
  const place = { type: 'installation', issuer: identityProvider.issuer } as const;
  return { place, organization: undefined, client: identityProvider };
};

async function takeLogout(
  find: FindAnnouncer,
  request: PageRequest,
  reply: FastifyReply,
  { people, failedLogouts }: PeopleRoutesOptions,
): Promise<FastifyReply> {
  void reply.header('Cache-Control', 'no-store');
  const announcer = await find(request, people);
  const at = announcer ? placeKey(announcer.place) : 'no provider';
  const attempt = { address: `${networkOf(request.ip)} ${at}`, clientId: undefined };
  try {
    await failedLogouts.guard(attempt, () => carryOut(announcer, request, people));
    return reply.code(200).send();
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
    request.log.info({ reason: error.message }, 'logout refused');
    if (announcer) await noteRefusal(announcer, request, people);
    const { retryAfterSeconds } = error;
    if (retryAfterSeconds === undefined) return reply.code(400).send({ error: 'invalid_request' });
    return reply.code(429).header('Retry-After', retryAfterSeconds).send({ error: error.code });
  }
}

/** @throws {OAuthError} `invalid_client` for a token that counts as a failed attempt, `invalid_request` for a request that does not */
async function carryOut(
  announcer: Announcer | undefined,
  request: PageRequest,
  people: PeoplePorts,
): Promise<void> {
  const token = sentToken(request);
  if (!announcer) throw new OAuthError('invalid_request', 'unknown provider');
  if (token === undefined) throw new OAuthError('invalid_request', 'no logout token');
  const reading = await announcer.client.readLogout(token, people.clock.now());
  if (reading.outcome === 'invalid') throw new OAuthError('invalid_client', reading.why);
  const outcome = await endByProvider(announcer, reading.logout, people);
  if (outcome === 'repeated') throw new OAuthError('invalid_request', 'the token arrived before');
}

function sentToken(request: FastifyRequest): string | undefined {
  try {
    return parseForm(request.headers['content-type'], bodyOf(request)).get('logout_token');
  } catch (error) {
    if (error instanceof OAuthError) return undefined;
    throw error;
  }
}

async function noteRefusal(
  { place, organization }: NamedPlace,
  request: FastifyRequest,
  { refusals }: Pick<PeoplePorts, 'refusals'>,
): Promise<void> {
  const { address, requestId } = visitOf(request);
  const isOwn = place.type === 'organization';
  await refusals.note({
    actor: 'anonymous',
    organization,
    action: isOwn ? 'provider.logout-token' : 'identity.logout-token',
    target: isOwn ? `provider:${place.providerId}` : place.issuer,
    address,
    requestId,
  });
}
