import { type Admission, admitProved, Turn } from './admission.ts';
import { maxEventBytes } from './answers.ts';
import { Applications } from './applications.ts';
import type { Awaitable } from '#model/awaitable';
import { errorAnswer } from './errors.ts';
import type { GatewayRefusal } from './gateway-refusal.ts';
import { Cancellations } from './legacy-calls.ts';
import { CallLimits } from './limits.ts';
import { Metering } from './metering.ts';
import { MirroredArguments } from './mirrored-arguments.ts';
import { OpenAnswers } from './open-answers.ts';
import type { GatewayEvent } from './other-nodes.ts';
import { callerOf, endFailed } from './open-call.ts';
import { callPath } from './pipeline.ts';
import type { GatewayParts, GatewayPorts, RefusedCaller } from './gateway-parts.ts';
import { PlainLinks } from './plain-calls.ts';
import { Reaper } from './reaper.ts';
import type { GatewayAnswer, GatewayRequest, ProvedCredential } from './request.ts';
import { LegacySessions } from './sessions.ts';
import { UnreadLists } from './unread-lists.ts';
import { BodyMemory } from './body-memory.ts';

/**
 * Authenticates, authorizes, routes and streams every MCP call. No credential of a caller ever reaches an upstream.
 * `pipeline.ts` lists the steps of a call.
 */
export class Gateway {
  readonly #parts: GatewayParts;

  constructor(given: GatewayPorts) {
    const ports: GatewayPorts = { ...given, known: new WeakMap() };
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
      callers: new WeakMap(),
      open: new OpenAnswers(),
      memory: new BodyMemory({ what: 'bodies', maxBodyBytes: ports.maxBodyBytes }),
      answerMemory: new BodyMemory({ what: 'responses', maxBodyBytes: maxEventBytes }),
      limits: new CallLimits(clock, tell && ((counts) => tell({ type: 'counted', counts }))),
      mirrored: new MirroredArguments(),
      unread: new UnreadLists(),
      applications: new Applications(),
      turn: undefined,
      refuse: (refusal, caller) => refuse(refusal, caller, ports),
      failed(error, call) {
        const refusal = endFailed(call, error);
        const answer = refuse(refusal, callerOf(call), ports);
        call.metering.failed(refusal, answer);
        return answer;
      },
    };
  }

  /** Never rejects: every failure becomes an answer. */
  async handle(request: GatewayRequest): Promise<GatewayAnswer> {
    return this.answer(request);
  }

  /**
   * Runs `answerAll`, which answers calls that have arrived. The change token of the database is read once for all of
   * them, after the last call arrived, so that no call has to wait for it. `answerAll` must not write: its calls would miss the change.
   */
  together(answerAll: () => void): void {
    const parts = this.#parts;
    try {
      parts.turn = new Turn(parts.ports.admissions.changeToken());
    } catch {
      // Each call reads it again and reports the failure.
    }
    try {
      answerAll();
    } finally {
      parts.turn = undefined;
    }
  }

  /**
   * Like `handle`, but returns the answer itself, rather than a promise, if there was nothing to wait for. Neither
   * throws nor rejects.
   */
  answer(request: GatewayRequest): Awaitable<GatewayAnswer> {
    const metering = new Metering(request, this.#parts.ports, this.#parts.applications);
    return callPath.pass({ request, metering }, this.#parts);
  }

  /** Admits a caller whose credential was proved, as of the change token of this turn. @throws {GatewayRefusal} */
  admit(
    proved: ProvedCredential,
    at: Pick<GatewayRequest, 'organization' | 'server'>,
  ): Awaitable<Admission> {
    return admitProved(proved, at, this.#parts.ports, this.#parts.turn);
  }

  /** Handles an event that another node reported. */
  heard(event: GatewayEvent, from: string): void {
    const { legacy, limits } = this.#parts;
    if (event.type === 'counted') limits.heard(from, event.counts);
    else legacy.cancellations.cancelHere(event.owner, event.request);
  }

  /** The numbers of open sessions and calls. */
  counts(): { readonly sessions: number; readonly openCalls: number } {
    const { legacy, open } = this.#parts;
    return { sessions: legacy.sessions.count, openCalls: open.size };
  }

  /** Ends the streams that have no end of their own. Called when the server drains. */
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

function refuse(
  refusal: GatewayRefusal,
  { request, id, era, principal, awaitsToolResult }: RefusedCaller,
  ports: GatewayPorts,
): GatewayAnswer {
  ports.refused(refusal, request, principal);
  const serverPath = `${request.organization}/${request.server}`;
  const member = request.proved?.type === 'member' ? request.server : undefined;
  return errorAnswer(refusal, { base: ports.base, serverPath, id, era, awaitsToolResult, member });
}
