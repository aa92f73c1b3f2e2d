import { UpstreamError, type Upstream } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import { httpUpstream, type HttpUpstream } from './http-upstream.ts';

/** The ways to all upstreams: one connection pool an HTTP server's URL, made at first use. */
export class Upstreams {
  readonly #http = new Map<string, HttpUpstream>();
  readonly #demo: Upstream;

  constructor({ demo }: { demo: Upstream }) {
    this.#demo = demo;
  }

  of({ upstream, name }: ServerRecord): Upstream {
    switch (upstream.kind) {
      case 'demo':
        return this.#demo;
      case 'http': {
        const known = this.#http.get(upstream.url) ?? httpUpstream(upstream.url);
        this.#http.set(upstream.url, known);
        return known;
      }
      case 'agent':
        return {
          send: () =>
            Promise.reject(new UpstreamError('offline', `the agent of ${name} is not connected`)),
        };
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#http.values()].map((upstream) => upstream.close()));
  }
}
