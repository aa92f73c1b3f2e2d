import type { Tracing } from 'latchkey-mcp/tracing';
import type { CredentialUse } from '#db/last-uses';
import type { ServerRecord } from '#db/servers';
import type { EpochSeconds } from '#clock/clock';
import type { Admission, AdmitPorts } from './admission.ts';
import { maxEventBytes } from './answers.ts';
import type { Awaitable } from '#awaitable';
import { BodyMemory } from './body-memory.ts';
import type { EraAdapters } from './era-adapters.ts';
import { errorAnswer } from './errors.ts';
import type { Presentation } from './filters.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { Cancellations, type LegacyState } from './legacy-calls.ts';
import { CallLimits } from './limits.ts';
import { Metering, type NoteCall } from './metering.ts';
import { MirroredArguments } from './mirrored-arguments.ts';
import { OpenAnswers } from './open-answers.ts';
import type { GatewayEvent, OtherNodes } from './other-nodes.ts';
import { givenUp, passCall, type Progress } from './pipeline.ts';
import { PlainLinks } from './plain-calls.ts';
import { Reaper } from './reaper.ts';
import type { GatewayAnswer, GatewayRequest } from './request.ts';
import type { Mac } from './seal.ts';
import { LegacySessions } from './sessions.ts';
import type { Upstream, UpstreamAnswer } from './upstream.ts';

export interface GatewayPorts extends AdmitPorts {
  readonly base: string;
  /** The upstream of a server for an admitted caller; `owner` is whom sessions belong to there. */
  readonly upstreamOf: (server: ServerRecord, owner: string, admission: Admission) => Upstream;
  /** Compares a list of tools with the accepted definitions, and leaves out what must not be shown. */
  readonly pinned: (answer: UpstreamAnswer, server: ServerRecord) => Promise<UpstreamAnswer>;
  /** Called once an owner has lost access, to end what is stored for them besides sessions. */
  readonly left: (owner: string) => void;
  /** Translates for callers of the era that an upstream does not speak. */
  readonly eras: EraAdapters;
  /** The title and instructions that the operator set for a server. Read when a caller connects. */
  readonly presentationOf: (server: ServerRecord) => Promise<Presentation | undefined>;
  /** Binds ids and states of upstreams to the caller that received them. */
  readonly mac: Mac;
  readonly used: (use: CredentialUse, usedAt: EpochSeconds) => void;
  /** Called with every admitted call when it is over. */
  readonly note: NoteCall;
  /** Called with every refusal and fault, including the reason that the caller does not get. */
  readonly refused: (refusal: GatewayRefusal, request: GatewayRequest, principal?: string) => void;
  /** The longest body that is accepted. */
  readonly maxBodyBytes?: number | undefined;
  readonly isAllowedOrigin: (origin: string | undefined) => boolean;
  /** Whether another process answers the calls to a server; its admitted callers get `elsewhere`. Default: none. */
  readonly isElsewhere?: ((server: ServerRecord) => boolean) | undefined;
  /** Spans of admitted calls; absent unless the operator wants traces. */
  readonly tracing?: Tracing | undefined;
  /** Absent where no other node shares the database. */
  readonly nodes?: OtherNodes | undefined;
}

/** What the steps of the pipeline work with. */
export interface GatewayParts {
  readonly ports: GatewayPorts;
  readonly open: OpenAnswers;
  /** Of the bodies that callers send. */
  readonly memory: BodyMemory;
  /** Of those that upstreams send. */
  readonly answerMemory: BodyMemory;
  readonly limits: CallLimits;
  readonly reaper: Reaper;
  readonly legacy: LegacyState;
  readonly mirrored: MirroredArguments;
  /** The change token of the database, read after the calls of this turn arrived; `undefined` outside of `together`. */
  changeToken: string | undefined;
  /** Logs a refusal and returns the answer for its caller. */
  readonly refuse: (
    refusal: GatewayRefusal,
    request: GatewayRequest,
    progress: Progress,
  ) => GatewayAnswer;
}

/**
 * Authenticates, authorizes, routes and streams every MCP call. No credential of a caller ever reaches an upstream.
 * `pipeline.ts` has the path of a call.
 */
export class Gateway {
  readonly #parts: GatewayParts;

  constructor(ports: GatewayPorts) {
    const { clock, admissions, eras, left } = ports;
    const tell = ports.nodes?.tell;
    const legacy = {
      sessions: new LegacySessions(clock, ports.nodes?.instance),
      links: new PlainLinks(clock),
      cancellations: new Cancellations(tell),
    };
    const keepers = [legacy.sessions, legacy.links, eras];
    const reaper = new Reaper({
      clock,
      changeToken: () => admissions.changeToken(),
      keeps: (owner) => keepers.some((keeper) => keeper.keeps(owner)),
      left,
      end: (owner) => keepers.forEach((keeper) => keeper.endOf(owner)),
    });
    this.#parts = {
      ports,
      legacy,
      reaper,
      open: new OpenAnswers(),
      memory: new BodyMemory({ what: 'bodies', maxBodyBytes: ports.maxBodyBytes }),
      answerMemory: new BodyMemory({ what: 'responses', maxBodyBytes: maxEventBytes }),
      limits: new CallLimits(clock, tell && ((counts) => tell({ type: 'counted', counts }))),
      mirrored: new MirroredArguments(),
      changeToken: undefined,
      refuse: (refusal, request, progress) => this.#refuse(refusal, request, progress),
    };
  }

  /** Never rejects: every failure becomes an answer. */
  async handle(request: GatewayRequest): Promise<GatewayAnswer> {
    return this.answer(request);
  }

  /**
   * Runs `answerAll`, which answers calls that have arrived. The change token of the database is read once for all of
   * them, after the last one arrived, so that none has to wait for it.
   */
  together(answerAll: () => void): void {
    const parts = this.#parts;
    try {
      parts.changeToken = parts.ports.admissions.changeToken();
    } catch {
      // Each call reads it again and reports the failure.
    }
    try {
      answerAll();
    } finally {
      parts.changeToken = undefined;
    }
  }

  /** Like `handle`, but returns a value if nothing had to be waited for. Neither throws nor rejects. */
  answer(request: GatewayRequest): Awaitable<GatewayAnswer> {
    const metering = new Metering(this.#parts.ports.note);
    const progress: Progress = { id: 'null', era: 'legacy', metering };
    try {
      const answer = passCall(request, progress, this.#parts);
      if (!(answer instanceof Promise)) return answer;
      return answer.catch((cause: unknown) => this.#failed(cause, request, progress));
    } catch (cause) {
      return this.#failed(cause, request, progress);
    }
  }

  #failed(error: unknown, request: GatewayRequest, progress: Progress): GatewayAnswer {
    const cause = progress.call ? givenUp(progress.call, error) : error;
    const refusal =
      cause instanceof GatewayRefusal ? cause : new GatewayRefusal('fault', { cause });
    progress.metering.failed(refusal);
    return this.#refuse(refusal, request, progress);
  }

  #refuse(refusal: GatewayRefusal, request: GatewayRequest, progress: Progress): GatewayAnswer {
    const { ports } = this.#parts;
    ports.refused(refusal, request, progress.principal);
    const serverPath = `${request.organization}/${request.server}`;
    const { id, era } = progress;
    return errorAnswer(refusal, { base: ports.base, serverPath, id, era });
  }

  /** Takes in what another node tells. */
  heard(event: GatewayEvent, from: string): void {
    const { legacy, limits } = this.#parts;
    if (event.type === 'counted') limits.heard(from, event.counts);
    else legacy.cancellations.cancelHere(event.owner, event.request);
  }

  /** How much is going on. */
  counts(): { readonly sessions: number; readonly openCalls: number } {
    const { legacy, open } = this.#parts;
    return { sessions: legacy.sessions.count, openCalls: open.size };
  }

  /** Ends streams that would never end, because the server is draining. */
  endEndless(): void {
    this.#parts.open.endEndless();
  }

  endAll(): void {
    this.#parts.open.endAll();
  }

  /** Ends everything that is open, and the sessions at the upstreams. */
  async close(): Promise<void> {
    const { open, reaper, legacy, limits, ports } = this.#parts;
    limits.close();
    open.close();
    reaper.close();
    await Promise.all([legacy.links.close(), legacy.sessions.endAll()]);
    await ports.eras.close();
  }
}
