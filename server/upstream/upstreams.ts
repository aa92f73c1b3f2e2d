import type { Clock, EpochSeconds } from '#clock/clock';
import type { Upstream } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { httpUpstream, type HttpUpstream } from './http-upstream.ts';

/** A server behind an agent, for whom `caller` names. */
export type AgentUpstream = (at: {
  readonly agentId: string;
  readonly server: string;
  readonly caller: string;
}) => Upstream;

export interface UpstreamsPorts {
  readonly demo: Upstream;
  readonly guard: OutboundGuard;
  readonly agent: AgentUpstream;
  readonly clock: Clock;
  /** The command behind a server, by `organization/server`. */
  readonly stdio: (path: string, caller: string) => Upstream;
}

const idleSeconds = 300;
const sweepEveryMs = 60_000;

interface KeptPool {
  readonly http: HttpUpstream;
  usedAt: EpochSeconds;
}

/**
 * The ways to all upstreams: one connection pool an HTTP server's URL, made at first use and closed when nobody has used
 * it for five minutes. What leads there, as a session that is kept, has another made when it is used again.
 */
export class Upstreams {
  readonly #pools = new Map<string, KeptPool>();
  readonly #demo: Upstream;
  readonly #agent: AgentUpstream;
  readonly #stdio: UpstreamsPorts['stdio'];
  /** What holds for a URL that somebody else than the operator typed. */
  readonly #guard: OutboundGuard;
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;

  constructor({ demo, guard, agent, stdio, clock }: UpstreamsPorts) {
    this.#demo = demo;
    this.#agent = agent;
    this.#stdio = stdio;
    this.#guard = guard;
    this.#clock = clock;
    this.#timer = setInterval(() => this.closeIdle(), sweepEveryMs).unref();
  }

  /** How many connection pools there are. */
  get pools(): number {
    return this.#pools.size;
  }

  /** The way to a server for `caller`, whom no other caller shares a session or a process with. */
  of({ upstream, organization, name: serverName }: ServerRecord, caller: string): Upstream {
    switch (upstream.kind) {
      case 'demo':
        return this.#demo;
      case 'http': {
        const { url, publicOnly = false } = upstream;
        return { send: (request) => this.#poolOf(url, publicOnly).send(request) };
      }
      case 'stdio':
        return this.#stdio(`${organization}/${serverName}`, caller);
      case 'agent':
        return this.#agent({ agentId: upstream.agentId, server: serverName, caller });
    }
  }

  /** Closes the pools that nobody used for five minutes and that nothing is under way in; called by itself. */
  closeIdle(): void {
    const oldest = this.#clock.now() - idleSeconds;
    for (const [name, { http, usedAt }] of this.#pools) {
      if (usedAt > oldest || http.isBusy()) continue;
      this.#pools.delete(name);
      // Nothing is lost with it.
      http.close().catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#pools.values()].map(({ http }) => http.close()));
  }

  #poolOf(url: string, publicOnly: boolean): HttpUpstream {
    const name = `${publicOnly ? 'public' : 'any'} ${url}`;
    const usedAt = this.#clock.now();
    const known = this.#pools.get(name);
    if (known) {
      known.usedAt = usedAt;
      return known.http;
    }
    const http = httpUpstream(url, publicOnly ? this.#guard : undefined);
    this.#pools.set(name, { http, usedAt });
    return http;
  }
}
