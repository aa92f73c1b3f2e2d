import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { RefusalLog } from '#audit/counted-refusals';
import { claimedClient } from '#oauth/claimed-client';
import type { FailedAttempts } from '#oauth/failed-attempts';
import { parseForm, type Form } from '#oauth/form';
import {
  introspectionEndpoint,
  type IntrospectionEndpointPorts,
} from '#oauth/introspection-endpoint';
import { authorizationServerMetadata, protectedResourceMetadata } from '#oauth/metadata';
import { OAuthRefusal } from '#oauth/oauth-refusal';
import { ownClientDocument } from '#oauth/own-client-document';
import { revocationEndpoint, type RevocationEndpointPorts } from '#oauth/revocation-endpoint';
import { tokenEndpoint, type TokenEndpointPorts } from '#oauth/token-endpoint';
import { userinfoEndpoint, type UserinfoEndpointPorts } from '#oauth/userinfo-endpoint';
import { isSlug } from '#organizations/slug';
import { networkOf } from '#people/network-of';
import type { SigningKeys } from '#signing/signing-key';
import { upstreamClientDocument } from '#upstream-access/client-document';
import { audited } from './audited.ts';
import { oauthBodies } from './oauth-bodies.ts';

export interface OAuthRoutesOptions {
  readonly base: string;
  readonly keys: SigningKeys;
  readonly dynamicRegistration?: boolean;
  readonly failedAttempts: FailedAttempts;
  readonly ports: TokenEndpointPorts &
    RevocationEndpointPorts &
    IntrospectionEndpointPorts &
    UserinfoEndpointPorts & { readonly refusals: RefusalLog };
}

/** The OAuth endpoints and the documents that lead a client to them. */
export function oauthRoutes(app: FastifyInstance, options: OAuthRoutesOptions): void {
  const { base, keys, ports, failedAttempts, dynamicRegistration = false } = options;
  oauthBodies(app);

  app.post('/api/oauth/token', async (request, reply) => {
    void reply.headers({ 'Cache-Control': 'no-store', Pragma: 'no-cache' });
    try {
      return await guarded(request, failedAttempts, (form, proof) =>
        tokenEndpoint(form, proof, audited(request, ports)),
      );
    } catch (refusal) {
      if (refusal instanceof OAuthRefusal) await noteDenied(request, refusal, ports);
      throw refusal;
    }
  });

  app.post('/api/oauth/introspect', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    return guarded(request, failedAttempts, (form, proof) =>
      introspectionEndpoint(form, proof, ports),
    );
  });

  app.post('/api/oauth/revoke', async (request, reply) => {
    await guarded(request, failedAttempts, (form, proof) =>
      revocationEndpoint(form, proof, audited(request, ports)),
    );
    return reply.header('Cache-Control', 'no-store').send();
  });

  app.get('/api/oauth/userinfo', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const told = await userinfoEndpoint(request.headers.authorization, ports);
    if (told) return told;
    void reply.code(401).header('WWW-Authenticate', 'Bearer error="invalid_token"');
    return { error: 'invalid_token', error_description: 'no valid access token of a person' };
  });

  publicDocument(app, '/.well-known/oauth-authorization-server', () =>
    authorizationServerMetadata(base, { dynamicRegistration }),
  );
  publicDocument(app, '/.well-known/jwks.json', () => keys.jwks);
  app.get('/oauth/clients/latchkey.json', async (_request, reply) => {
    void reply.header('Cache-Control', 'public, max-age=3600');
    return ownClientDocument(base);
  });
  publicDocument(
    app,
    '/oauth/clients/upstream/:organization/:server',
    ({ organization = '', server = '' }) =>
      isSlug(organization) && isSlug(server)
        ? upstreamClientDocument(base, { organization, server })
        : undefined,
  );
  publicDocument(
    app,
    '/.well-known/oauth-protected-resource/mcp/:organization/:server',
    ({ organization = '', server = '' }) =>
      isSlug(organization) && isSlug(server)
        ? protectedResourceMetadata(base, `${organization}/${server}`)
        : undefined,
  );
}

/** Headers that decide who is asking, and what; sent twice, a proxy might heed the other one. */
const singleHeaders = ['authorization', 'content-type'];

/** What a client asks for, unless it or its address has failed to prove itself too often. */
async function guarded<Answer>(
  request: FastifyRequest,
  failedAttempts: FailedAttempts,
  act: (form: Form, authorization: string | undefined) => Promise<Answer>,
): Promise<Answer> {
  const form = formOf(request);
  const { authorization } = request.headers;
  const attempt = { address: networkOf(request.ip), clientId: claimedClient(form, authorization) };
  return failedAttempts.guard(attempt, () => act(form, authorization));
}

/** A token that was not given stands in the record of the organization whose client asked, or seemed to. */
async function noteDenied(
  request: FastifyRequest,
  { code }: OAuthRefusal,
  { clients, refusals }: OAuthRoutesOptions['ports'],
): Promise<void> {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const named = new URLSearchParams(body.toString('utf8'));
  const claimed = claimedClient(new Map(named), request.headers.authorization);
  const client = claimed === undefined ? undefined : await clients.byId(claimed);
  await refusals.note({
    actor: 'nobody',
    organization: client?.serverPath?.split('/')[0],
    action: `token.${code.replaceAll('_', '-')}`,
    target: client && `client:${client.id}`,
    address: request.ip,
    requestId: request.id,
  });
}

function formOf(request: FastifyRequest): Form {
  // A secret in a URL ends up in histories and logs, so nothing is taken from there. RFC 6749 §2.3.1
  if (/[?#]/.test(request.raw.url ?? '')) {
    throw new OAuthRefusal('invalid_request', 'parameters belong in the body, not in the URL');
  }
  const repeated = singleHeaders.find(
    (name) => (request.raw.headersDistinct[name]?.length ?? 0) > 1,
  );
  if (repeated !== undefined) {
    throw new OAuthRefusal('invalid_request', `the header ${repeated} is repeated`);
  }
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  return parseForm(request.headers['content-type'], body);
}

/** A document that any page may read: it is the same for everybody and holds nothing private. */
function publicDocument(
  app: FastifyInstance,
  path: string,
  document: (params: Record<string, string | undefined>) => object | undefined,
): void {
  const cors = (reply: FastifyReply) => reply.header('Access-Control-Allow-Origin', '*');
  app.get<{ Params: Record<string, string | undefined> }>(path, async (request, reply) => {
    const body = document(request.params);
    void cors(reply).header('Cache-Control', 'public, max-age=300');
    return body ?? reply.code(404).send({ error: 'not_found' });
  });
  app.options(path, async (_request, reply) =>
    cors(reply)
      .headers({
        'Access-Control-Allow-Methods': 'GET',
        'Access-Control-Allow-Headers': '*',
        'Access-Control-Max-Age': '86400',
      })
      .code(204)
      .send(),
  );
}
