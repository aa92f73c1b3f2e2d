import type { FastifyInstance } from 'fastify';

import type { Clock, EpochSeconds } from '#clock/clock';
import { OAuthRefusal } from '#oauth/oauth-refusal';
import { registrationEndpoint, type RegistrationEndpointPorts } from '#oauth/registration-endpoint';
import { networkOf } from '#people/network-of';
import { oauthBodies } from './oauth-bodies.ts';

const maxPerHour = 30;
const hourSeconds = 3600;
const mostNetworks = 10_000;

/** `POST {base}/api/oauth/register`, thirty an hour for each network. RFC 7591 §3 */
export function registrationRoute(
  app: FastifyInstance,
  ports: RegistrationEndpointPorts & { readonly clock: Clock },
): void {
  const recent = new Map<string, EpochSeconds[]>();
  oauthBodies(app);

  app.post('/api/oauth/register', async (request, reply) => {
    const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
    if (type !== 'application/json') {
      throw new OAuthRefusal('invalid_client_metadata', 'the body must be application/json');
    }
    const now = ports.clock.now();
    const network = networkOf(request.ip);
    const before = (recent.get(network) ?? []).filter((at) => at > now - hourSeconds);
    if (before.length >= maxPerHour) {
      throw new OAuthRefusal('slow_down', 'too many registrations from this address', {
        retryAfterSeconds: Math.max(1, (before[0] ?? now) + hourSeconds - now),
      });
    }
    // Taken out first, so that the one that registered longest ago is the first to be forgotten.
    recent.delete(network);
    if (recent.size >= mostNetworks) recent.delete(recent.keys().next().value ?? '');
    recent.set(network, [...before, now]);
    const registration = await registrationEndpoint(parseJson(request.body), ports);
    return reply.code(201).header('Cache-Control', 'no-store').send(registration);
  });
}

function parseJson(body: unknown): unknown {
  try {
    return JSON.parse(String(body));
  } catch {
    throw new OAuthRefusal('invalid_client_metadata', 'the body is not JSON');
  }
}
