import type { EpochSeconds } from '#clock/clock';
import type { CredentialUse } from '#credentials/usage';
import type { ServerLimits } from '#organizations/server-limits';
import type { ServerRecord } from '#organizations/server-record';
import type { Admission } from './admission.ts';
import { admit, type AdmitPorts } from './admit.ts';
import { askForAccount } from './ask-for-account.ts';
import { authorise } from './authorise.ts';
import { CallLimits } from './call-limits.ts';
import type { Call, MessageCall } from './call.ts';
import { Cancellations } from './cancellations.ts';
import type { EraFaces } from './era-faces.ts';
import { eraOf, legacyOnlyMethods, type Era } from './era.ts';
import { errorAnswer } from './errors.ts';
import type { GatewayAnswer, GatewayRequest } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { withHeartbeat } from './heartbeat.ts';
import { heardUpstream } from './heard-upstream.ts';
import { KeptOwners } from './kept-owners.ts';
import { legacyMessage, type LegacyRooms } from './legacy-message.ts';
import { LegacySessions, sessionOf } from './legacy-sessions.ts';
import { legacyStream } from './legacy-stream.ts';
import { limitedAnswer, slownessIn } from './limited-answer.ts';
import type { NoteCall } from './metered-call.ts';
import { isCall, Metering } from './metering.ts';
import { MirroredArguments } from './mirrored-arguments.ts';
import { modernMessage } from './modern-message.ts';
import { countedFor, OpenAnswers } from './open-answers.ts';
import { ownerOf } from './owner-of.ts';
import { PlainLinks } from './plain-links.ts';
import { presentedUpstream, presentingMethods, type Presentation } from './presented-upstream.ts';
import { presentedCredential } from './presented-credential.ts';
import { principalSeal, type Mac } from './principal-seal.ts';
import { readMessage } from './read-message.ts';
import { sealAnswer } from './seal-answer.ts';
import { toldEnd } from './told-end.ts';
import { unsealMessage } from './unseal-message.ts';
import type { Upstream } from './upstream.ts';
import { withoutConnectResponse } from './without-connect-response.ts';

const maxOpenPerCredential = 1024;

export interface GatewayPorts extends AdmitPorts {
  readonly base: string;
  /** The way to a server for who was admitted; `owner` is whom sessions belong to there. */
  readonly upstreamOf: (server: ServerRecord, owner: string, admission: Admission) => Upstream;
  /** Nothing lets an owner in any more: what the ways keep for them besides sessions may end. */
  readonly left: (owner: string) => void;
  /** Translates for callers of the era that an upstream does not speak. */
  readonly eras: EraFaces;
  /** What a server says of itself, beside what its upstream does; asked when a caller connects. */
  readonly presentationOf: (server: ServerRecord) => Promise<Presentation | undefined>;
  /** Binds what upstreams hand out to the caller it was for. */
  readonly mac: Mac;
  readonly used: (use: CredentialUse, usedAt: EpochSeconds) => void;
  /** Told of every call that was let in, when it is over. */
  readonly note: NoteCall;
  /** Told of every refusal and fault, with the reason that the caller does not get. */
  readonly refused: (refusal: GatewayRefusal, request: GatewayRequest, principal?: string) => void;
  readonly isAllowedOrigin: (origin: string | undefined) => boolean;
}

/** What of a message an error answer repeats, known from the moment it was read. */
interface Seen {
  id: string;
  era: Era;
  readonly metering: Metering;
  /** Who asks, once that is proved. */
  principal?: string;
}

/**
 * What stands in front of every MCP server: authenticate, authorise, route, stream. Nothing reaches an
 * upstream before all checks have passed, and no credential of a caller ever does.
 */
export class Gateway {
  readonly #ports: GatewayPorts;
  readonly #open = new OpenAnswers();
  readonly #rooms: LegacyRooms;
  readonly #limits: CallLimits;
  readonly #kept: KeptOwners;
  readonly #mirrored = new MirroredArguments();

  constructor(ports: GatewayPorts) {
    this.#ports = ports;
    this.#limits = new CallLimits(ports.clock);
    this.#rooms = {
      sessions: new LegacySessions(ports.clock),
      links: new PlainLinks(ports.clock),
      cancellations: new Cancellations(),
    };
    const keepers = [this.#rooms.sessions, this.#rooms.links, ports.eras];
    this.#kept = new KeptOwners({
      clock: ports.clock,
      written: () => ports.admissions.written(),
      keeps: (owner) => keepers.some((keeper) => keeper.keeps(owner)),
      left: ports.left,
      end: (owner) => keepers.forEach((keeper) => keeper.endOf(owner)),
    });
  }

  /** Never rejects: whatever goes wrong is an answer. */
  async handle(request: GatewayRequest): Promise<GatewayAnswer> {
    const metering = new Metering(this.#ports.note);
    const seen: Seen = { id: 'null', era: 'legacy', metering };
    try {
      this.#checkTransport(request);
      return await this.#admitted(request, seen);
    } catch (cause) {
      const refusal =
        cause instanceof GatewayRefusal ? cause : new GatewayRefusal('fault', { cause });
      metering.failed(refusal);
      return this.#refuse(refusal, request, seen);
    }
  }

  #refuse(refusal: GatewayRefusal, request: GatewayRequest, seen: Seen): GatewayAnswer {
    this.#ports.refused(refusal, request, seen.principal);
    const serverPath = `${request.organization}/${request.server}`;
    const { id, era } = seen;
    return errorAnswer(refusal, { base: this.#ports.base, serverPath, id, era });
  }

  /** Ends the answers that would go on for ever, as a server that drains must. */
  endEndless(): void {
    this.#open.endEndless();
  }

  endAll(): void {
    this.#open.endAll();
  }

  /** Ends all that is open, and the sessions at the upstreams. */
  async close(): Promise<void> {
    this.#open.close();
    this.#kept.close();
    await Promise.all([this.#rooms.links.close(), this.#rooms.sessions.endAll()]);
    await this.#ports.eras.close();
  }

  #checkTransport({ method, headers }: GatewayRequest): void {
    if (!this.#ports.isAllowedOrigin(headers.origin)) {
      throw new GatewayRefusal('foreign_origin', { detail: headers.origin?.slice(0, 200) ?? '' });
    }
    const inSession = headers['mcp-session-id'] !== undefined;
    const known = method === 'POST' || (inSession && (method === 'GET' || method === 'DELETE'));
    if (!known) throw new GatewayRefusal('method_not_allowed');
  }

  async #admitted(request: GatewayRequest, seen: Seen): Promise<GatewayAnswer> {
    const { clock, used, upstreamOf } = this.#ports;
    const { person, rawHeaders } = request;
    const presented =
      person === undefined
        ? presentedCredential(rawHeaders)
        : ({ type: 'person', userId: person } as const);
    const admission = await admit(presented, request, this.#ports);
    const { credential, grantId, principal, server } = admission;
    seen.principal = principal;
    if (request.method === 'POST') seen.metering.admitted(admission);
    if (credential.type !== 'person') {
      used({ type: credential.type, id: credential.id }, clock.now());
    }
    if (grantId !== undefined) used({ type: 'grant', id: grantId }, clock.now());
    if (this.#open.count(countedFor(admission)) >= maxOpenPerCredential) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `this credential has ${maxOpenPerCredential} of them open`,
        retryAfterSeconds: 1,
      });
    }
    const ending = new AbortController();
    const owner = ownerOf(principal, server.id);
    this.#kept.note(owner, admission.standing);
    const upstream = upstreamOf(server, owner, admission);
    const { over, endless } = this.#open.add(whileStanding(admission, upstream), ending);
    const afterwards = [over];
    const finish = () => afterwards.forEach((act) => act());
    try {
      const seal = principalSeal(owner, this.#ports.mac);
      const call = { request, admission, upstream, ending, owner, seal, endless, afterwards };
      const sealed = sealAnswer(await this.#route(call, seen), seal);
      const answer = whenOver(sealed, finish, seen.metering);
      // Nobody waits for the response to what only listens.
      if (seen.id === 'null') return withHeartbeat(answer);
      const told = toldEnd(answer, (cause) => {
        const lost = { detail: 'its answer broke off', cause };
        const refusal =
          cause instanceof GatewayRefusal ? cause : new GatewayRefusal('upstream_failed', lost);
        const { body } = this.#refuse(refusal, request, seen);
        return typeof body === 'string' ? body : '';
      });
      return withHeartbeat(told);
    } catch (error) {
      finish();
      const wasEnded = ending.signal.aborted;
      // Whatever the upstream still sends is for nobody.
      ending.abort();
      if (!wasEnded || !isBreak(error)) throw error;
      const slowness = slownessIn(ending.signal);
      if (slowness) throw slowness;
      throw new GatewayRefusal('cancelled', { cause: error });
    }
  }

  async #route(call: Call, seen: Seen): Promise<GatewayAnswer> {
    const { eras } = this.#ports;
    if (call.request.method !== 'POST') {
      const { limits } = call.admission.server;
      if (limits && call.request.method === 'GET') {
        call.afterwards.push(this.#limits.listen(call.admission, limits).over);
      }
      const upstream = heardUpstream(eras.facing('legacy', call), call.admission.scopes);
      return legacyStream({ ...call, upstream }, this.#rooms.sessions);
    }
    let message = await readMessage(call);
    seen.id = message.envelope.id ?? 'null';
    seen.metering.read(message.envelope);
    if (message.envelope.kind !== 'response') {
      seen.era = eraOf(message.envelope, call.request.headers);
      const { method = '' } = message.envelope;
      if (seen.era === 'modern' && legacyOnlyMethods.has(method)) {
        throw new GatewayRefusal('unknown_method', { detail: method });
      }
      authorise(message.envelope, message.body, call.admission);
    }
    const { limits } = call.admission.server;
    if (limits) {
      const { over } = this.#limits.begin(call, message.envelope, message.body, limits);
      call.afterwards.push(over);
    }
    const upstream = heardUpstream(this.#facing(seen.era, call), call.admission.scopes);
    message = { ...message, ...unsealMessage(message, call.seal), upstream };
    if (presentingMethods.has(message.envelope.method ?? ''))
      message = await this.#presented(message);
    const answer = await this.#forwarded(message, seen);
    return limits && isCall(message.envelope) ? this.#limited(answer, call, seen, limits) : answer;
  }

  /** Who speaks the modern era sees to its headers themselves. */
  #facing(era: Era, { upstream, owner, admission }: Call): Upstream {
    const own = era === 'legacy' ? this.#mirrored.upstream(upstream, admission.server) : upstream;
    return this.#ports.eras.facing(era, { upstream: own, owner, admission });
  }

  async #forwarded(message: MessageCall, { era }: Seen): Promise<GatewayAnswer> {
    try {
      if (era === 'modern') {
        return await modernMessage({ ...message, ...withoutConnectResponse(message) });
      }
      return await legacyMessage(message, this.#rooms);
    } catch (error) {
      const inSession = era === 'legacy' && sessionOf(message, this.#rooms.sessions)?.showsUrls;
      return askForAccount(error, message, { era, inSession });
    }
  }

  async #presented(message: MessageCall): Promise<MessageCall> {
    const { server } = message.admission;
    const presentation = await this.#ports.presentationOf(server).catch((cause: unknown) => {
      throw new GatewayRefusal('unavailable', { cause });
    });
    if (!presentation?.title && !presentation?.instructions) return message;
    return { ...message, upstream: presentedUpstream(message.upstream, presentation) };
  }

  #limited(answer: GatewayAnswer, call: Call, seen: Seen, limits: ServerLimits) {
    return limitedAnswer(answer, {
      maxBytes: limits.answerBytes ?? Infinity,
      signal: call.ending.signal,
      cut: (refusal) => void this.#refuse(refusal, call.request, seen),
    });
  }
}

/** An admission that ends with the account that the upstream is used by, too. */
function whileStanding(admission: Admission, { stands }: Upstream): Admission {
  if (!stands) return admission;
  const scopesNow = async () => {
    const scopes = await admission.scopesNow();
    return scopes && (await stands()) ? scopes : undefined;
  };
  return { ...admission, scopesNow };
}

/** Whether this is what ending a call does to its answer, rather than a refusal of its own. */
function isBreak(error: unknown): boolean {
  return !(error instanceof GatewayRefusal) || error.code === 'upstream_failed';
}

/** The same answer, saying when it has been sent to its end, or given up. */
function whenOver(answer: GatewayAnswer, finish: () => void, metering: Metering): GatewayAnswer {
  const { body } = answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    finish();
    metering.answered(answer);
    return answer;
  }
  return { ...answer, body: metering.following(answer, body, finish) };
}
