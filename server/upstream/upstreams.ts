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
  /** The command behind a server, by `organization/server`. */
  readonly stdio: (path: string, caller: string) => Upstream;
}

/** The ways to all upstreams: one connection pool an HTTP server's URL, made at first use. */
export class Upstreams {
  readonly #http = new Map<string, HttpUpstream>();
  readonly #demo: Upstream;
  readonly #agent: AgentUpstream;
  readonly #stdio: UpstreamsPorts['stdio'];
  /** What holds for a URL that somebody else than the operator typed. */
  readonly #guard: OutboundGuard;

  constructor({ demo, guard, agent, stdio }: UpstreamsPorts) {
    this.#demo = demo;
    this.#agent = agent;
    this.#stdio = stdio;
    this.#guard = guard;
  }

  /** The way to a server for `caller`, whom no other caller shares a session or a process with. */
  of({ upstream, organization, name: serverName }: ServerRecord, caller: string): Upstream {
    switch (upstream.kind) {
      case 'demo':
        return this.#demo;
      case 'http': {
        const { url, publicOnly } = upstream;
        const name = `${publicOnly ? 'public' : 'any'} ${url}`;
        const known =
          this.#http.get(name) ?? httpUpstream(url, publicOnly ? this.#guard : undefined);
        this.#http.set(name, known);
        return known;
      }
      case 'stdio':
        return this.#stdio(`${organization}/${serverName}`, caller);
      case 'agent':
        return this.#agent({ agentId: upstream.agentId, server: serverName, caller });
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#http.values()].map((upstream) => upstream.close()));
  }
}
