import { takeRawBodies } from './body.ts';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WithDbAndClock } from '#admin/operation';
import { changeServerSettings, serverSettings } from '#admin/server-settings';
import { ownServer } from '#admin/paths';
import { AdministrationRefusal } from '#admin/refusal';
import { fromWire, toWire } from '#admin/wire-names';
import type { RefusalLog } from '#audit/counted-refusals';
import { lockAdmissions } from '#db/admissions';
import type { CredentialUse } from '#db/last-uses';
import type { Db } from '#db/transaction';
import {
  type Admission,
  admitProved,
  type AdmitPorts,
  presentedCredential,
  prove,
} from '#gateway/admission';
import { errorAnswer } from '#gateway/errors';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { parseJsonObject } from '#oauth/forms';
import { OAuthError } from '#oauth/oauth-error';
import { allScopes, type Scope } from '#model/scopes';
import { limitNames } from '#model/server-limits';
import { isSlug } from '#model/slug';
import { adminErrorAnswer } from './error-answers.ts';

const maxBodyBytes = 256 * 1024;

interface Place {
  Params: { organization: string; server: string };
}

export interface ServerSettingsOptions extends AdmitPorts {
  readonly base: string;
  readonly administration: WithDbAndClock;
  readonly refusals: RefusalLog;
  readonly used: (use: CredentialUse, usedAt: number) => void;
  readonly isAllowedOrigin: (origin: string | undefined) => boolean;
}

/**
 * `GET` and `PATCH {base}/api/servers/{organization}/{server}`: how a server presents itself, for credentials of its
 * MCP endpoint with the scopes `mcp:server:read` and `mcp:server:manage`. A change may name its version in
 * `If-Match`. Each version is changed once, and concurrent changes apply one after the other.
 *
 * RFC 5789, RFC 9110 §13.1
 */
export function serverSettingsRoutes(app: FastifyInstance, options: ServerSettingsOptions): void {
  const { base, administration } = options;
  const url = '/api/servers/:organization/:server';
  takeRawBodies(app, maxBodyBytes);
  app.addHook('onRequest', async (_request, reply) => {
    void reply.header('Cache-Control', 'no-store');
  });
  app.setErrorHandler<Error, Place>((error, request, reply) => {
    const { organization, server } = request.params;
    if (error instanceof GatewayRefusal) {
      const path = `${organization}/${server}`;
      const { status, headers, words } = refusalAnswer(error, base, path);
      request.log.info({ code: error.code, detail: error.details.detail }, 'request refused');
      return reply.code(status).headers(headers).send(words);
    }
    const { status, headers, body } = adminErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'request failed');
    else request.log.info({ code: body.error, reason: body.error_description }, 'request refused');
    return reply.code(status).headers(headers).send(body);
  });

  app.get<Place>(url, { exposeHeadRoute: false }, async (request, reply) => {
    const isManager = await admitted(request, 'mcp:server:read', options, async ({ scopes }) =>
      scopes.includes('mcp:server:manage'),
    );
    // The complete server: admission only knows what calls need.
    const { organization, server: name } = request.params;
    const server = await ownServer(organization, name, administration);
    return shown(serverSettings(server, isManager), request, reply);
  });
  app.patch<Place>(url, async (request, reply) => {
    const changed = await admitted(request, 'mcp:server:manage', options, (caller) => {
      const { endpoint, principal: name, admit } = caller;
      const given = jsonOf(request);
      const by = { name, admit, address: request.ip, requestId: request.id };
      const isExpected = (version: string) => holds(request.headers['if-match'], version);
      return changeServerSettings(endpoint, given, isExpected, by, administration);
    });
    if (changed) return shown(serverSettings(changed), request, reply);
    const words = 'the settings have changed since you read them: read them again';
    return reply.code(412).send({ error: 'precondition_failed', error_description: words });
  });
}

function shown(
  { settings, version }: ReturnType<typeof serverSettings>,
  request: FastifyRequest<Place>,
  reply: FastifyReply,
) {
  void reply.header('ETag', `"${version}"`);
  const known = request.headers['if-none-match'];
  if (request.method === 'GET' && known !== undefined && holds(known, version)) {
    return reply.code(304).send();
  }
  const { organization, server: name } = request.params;
  return reply.send(toWire({ organization, name, ...settings }));
}

/** Whether a condition names this version. Without a condition, or with `*`, any does. RFC 9110 §13.1.1, §13.1.2 */
function holds(condition: string | undefined, version: string): boolean {
  if (condition === undefined || condition.trim() === '*') return true;
  return condition.split(',').some((tag) => tag.trim().replace(/^W\//, '') === `"${version}"`);
}

interface Caller extends Pick<Admission, 'endpoint' | 'principal' | 'scopes'> {
  /** Admits the caller again in a transaction. Its access cannot be revoked before the transaction ends. */
  readonly admit: (tx: Db) => Promise<void>;
}

/**
 * Runs `act` for a caller that has a scope now. Refusals are recorded.
 *
 * @throws {GatewayRefusal} as the MCP endpoint would for this credential, or `insufficient_scope`
 */
async function admitted<Result>(
  request: FastifyRequest<Place>,
  needed: Scope,
  options: ServerSettingsOptions,
  act: (caller: Caller) => Promise<Result>,
): Promise<Result> {
  const { organization, server } = request.params;
  const { origin } = request.headers;
  if (!options.isAllowedOrigin(origin)) {
    throw new GatewayRefusal('foreign_origin', { detail: origin?.slice(0, 200) ?? '' });
  }
  const presented = presentedCredential(request.raw.rawHeaders);
  // Names of any other form cannot exist and are not worth recording.
  if (!isSlug(organization) || !isSlug(server)) throw new GatewayRefusal('bad_credential');
  let actor = 'anonymous';
  try {
    const proved = await prove(presented, options);
    const admission = await admitProved(proved, { organization, server }, options);
    const { credential, principal } = admission;
    actor = principal;
    if (credential.type !== 'person') {
      options.used({ type: credential.type, id: credential.id }, options.clock.now());
    }
    checkScope(admission, needed);
    return await act({
      ...admission,
      async admit(tx) {
        const admissions = await lockAdmissions(tx);
        const now = await admitProved(proved, { organization, server }, { ...options, admissions });
        checkScope(now, needed);
      },
    });
  } catch (refusal) {
    const note = (action: string, by: string) =>
      options.refusals.note({
        actor: by,
        organization,
        action: `settings.${action}`,
        target: `${organization}/${server}`,
        address: request.ip,
        requestId: request.id,
      });
    if (refusal instanceof GatewayRefusal && refusal.code !== 'unavailable') {
      await note(refusal.code.replaceAll('_', '-'), refusal.details.principal ?? actor);
    }
    if (refusal instanceof AdministrationRefusal && refusal.code === 'forbidden') {
      await note('hidden-tools', actor);
    }
    throw refusal;
  }
}

/** @throws {GatewayRefusal} `insufficient_scope` */
function checkScope({ scopes }: Admission, needed: Scope): void {
  if (scopes.includes(needed)) return;
  const union = allScopes.filter((scope) => scopes.includes(scope) || scope === needed);
  throw new GatewayRefusal('insufficient_scope', { scopes: union, detail: needed });
}

/** The value that `null` stands for in a setting. */
function emptied(name: string): unknown {
  if (name === 'hiddenTools') return [];
  return name === 'limits' ? Object.fromEntries(limitNames.map((limit) => [limit, null])) : '';
}

/** The gateway's refusal in the form of this API: the same status and challenge, with JSON of RFC 6749 §5.2. */
function refusalAnswer(refusal: GatewayRefusal, base: string, serverPath: string) {
  const { status, headers, body } = errorAnswer(refusal, {
    base,
    serverPath,
    era: 'legacy',
    id: 'null',
  });
  const message =
    /"message":("(?:[^"\\]|\\.)*")/.exec(typeof body === 'string' ? body : '')?.[1] ?? '""';
  const isInvalid = refusal.code === 'bad_credential' || refusal.code === 'suspended';
  const error = isInvalid ? 'invalid_token' : refusal.code;
  return { status, headers, words: { error, error_description: String(JSON.parse(message)) } };
}

/**
 * The members to change. `null` clears one. RFC 7396
 *
 * @throws {OAuthError} `invalid_request`
 * @throws {AdministrationRefusal} `invalid` for an unknown name
 */
function jsonOf({ body, headers }: FastifyRequest): object {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json' && type !== 'application/merge-patch+json') {
    throw new OAuthError('invalid_request', 'the body must be application/json');
  }
  const members = Object.entries(fromWire(parseJsonObject(body))).map(([name, member]) => {
    return [name, member === null ? emptied(name) : member] as const;
  });
  return Object.fromEntries(members);
}
