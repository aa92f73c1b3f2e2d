import type { AdmitPorts, Admission, Turn } from './admission.ts';
import type { Applications } from './applications.ts';
import type { Upstream, UpstreamAnswer } from './upstream.ts';
import type { ServerRecord, Target } from '#model/endpoints';
import type { Presentation } from './filters.ts';
import type { EraAdapters } from './era-adapters.ts';
import type { CredentialUse } from '#db/last-uses';
import type { Mac } from './seal.ts';
import type { MeteringPorts } from './metering.ts';
import type { EpochSeconds } from '#model/clock';
import type { GatewayRequest, GatewayAnswer } from './request.ts';
import type { GatewayRefusal } from './gateway-refusal.ts';
import type { OtherNodes } from './other-nodes.ts';
import type { Tracing } from 'latchkey-mcp/tracing';
import type { BodyMemory } from './body-memory.ts';
import type { OpenAnswers } from './open-answers.ts';
import type { Caller } from './call.ts';
import type { Reaper } from './reaper.ts';
import type { CallLimits } from './limits.ts';
import type { MirroredArguments } from './mirrored-arguments.ts';
import type { LegacyState } from './legacy-calls.ts';
import type { Failing } from './steps.ts';
import type { UnreadLists } from './unread-lists.ts';
import type { Era } from 'latchkey-mcp/headers';

/** The request that an answer with definitions belongs to. */
export interface PinnedRequest {
  readonly method: string;
  /** JSON text. */
  readonly id: string | undefined;
  /** Whether the answer goes to the caller, rather than to an adapter: an adapter may have made it from an older answer. */
  readonly isForCaller: boolean;
}

export interface GatewayPorts extends AdmitPorts, MeteringPorts {
  readonly base: string;
  /**
   * The upstream of a target for an admitted caller; `owner` is the owner of its sessions there. Called once for all calls that share an
   * admission, which is created again when anything that it depends on has changed.
   */
  readonly upstreamOf: (target: Target, owner: string, admission: Admission) => Upstream;
  /**
   * Compares the definitions in an answer with the accepted ones, removes those that must not be shown, and applies the corrections
   * of administrators.
   */
  readonly pinned: (
    answer: UpstreamAnswer,
    target: Target,
    request: PinnedRequest,
  ) => Promise<UpstreamAnswer>;
  /** Called once an owner has lost access, to end what is stored for them besides sessions. */
  readonly left: (owner: string) => void;
  /** Translates for callers of the era that an upstream does not speak. */
  readonly eras: EraAdapters;
  /** The title and instructions that the operator set for a server. Read when a caller connects. */
  readonly presentationOf: (endpoint: ServerRecord) => Promise<Presentation | undefined>;
  /** Binds ids and states of upstreams to the caller that received them. */
  readonly mac: Mac;
  readonly used: (use: CredentialUse, usedAt: EpochSeconds) => void;
  /** Called with every refusal and fault, including the reason that the caller does not get. */
  readonly refused: (refusal: GatewayRefusal, request: GatewayRequest, principal?: string) => void;
  /** The longest body that is accepted. */
  readonly maxBodyBytes?: number | undefined;
  readonly isAllowedOrigin: (origin: string | undefined) => boolean;
  /**
   * Whether another process answers the calls to a target; admitted callers then get an answer with `isElsewhere`.
   * Default: no target.
   */
  readonly isElsewhere?: ((target: Target) => boolean) | undefined;
  /** Spans of admitted calls; absent unless the operator wants traces. */
  readonly tracing?: Tracing | undefined;
  /** Absent where no other node shares the database. */
  readonly nodes?: OtherNodes | undefined;
}

/** The parts of the gateway that the steps of the pipeline use. */
export interface GatewayParts extends Failing {
  readonly ports: GatewayPorts;
  /** The `Caller` of each admission. */
  readonly callers: WeakMap<Admission, Caller>;
  readonly open: OpenAnswers;
  /** The memory of the bodies that callers send. */
  readonly memory: BodyMemory;
  /** The memory of the bodies that upstreams send. */
  readonly answerMemory: BodyMemory;
  readonly limits: CallLimits;
  readonly reaper: Reaper;
  readonly legacy: LegacyState;
  readonly mirrored: MirroredArguments;
  readonly unread: UnreadLists;
  /** The names and versions that applications announced. */
  readonly applications: Applications;
  /** The data shared by the calls that are being answered; `undefined` outside of `together`. */
  turn: Turn | undefined;
  /** Logs a refusal and returns the answer for its caller. */
  readonly refuse: (refusal: GatewayRefusal, caller: RefusedCaller) => GatewayAnswer;
}

/** The properties of a refused call that its answer depends on, or that the log names. */
export interface RefusedCaller {
  readonly request: GatewayRequest;
  /** The id of the request, as JSON text; `null` as long as it is not known. */
  readonly id: string;
  readonly era: Era;
  /** The caller, once authenticated. */
  readonly principal: string | undefined;
  readonly awaitsToolResult: boolean;
}
