import { UpstreamError, type Upstream } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { httpUpstream, type HttpUpstream } from './http-upstream.ts';

/** The ways to all upstreams: one connection pool an HTTP server's URL, made at first use. */
export class Upstreams {
  readonly #http = new Map<string, HttpUpstream>();
  readonly #demo: Upstream;
  /** What holds for a URL that somebody else than the operator typed. */
  readonly #guard: OutboundGuard;

  constructor({ demo, guard }: { demo: Upstream; guard: OutboundGuard }) {
    this.#demo = demo;
    this.#guard = guard;
  }

  of({ upstream, name: serverName }: ServerRecord): Upstream {
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
      case 'agent':
        return {
          send: () =>
            Promise.reject(
              new UpstreamError('offline', `the agent of ${serverName} is not connected`),
            ),
        };
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#http.values()].map((upstream) => upstream.close()));
  }
}
