import { type Upstream, type UpstreamAnswer, UpstreamError } from '#gateway/upstream';
import { discardAnswer } from '#gateway/answers';
import type { UpstreamKind } from '#model/upstream-kinds';

/** What the drivers need to open upstreams. */
export interface UpstreamResources {
  readonly http: (url: string, publicOnly: boolean) => Upstream;
  readonly agent: (agentId: string, server: string, owner: string) => Upstream;
  readonly demo: Upstream;
  /** `path` is `organization/server`. */
  readonly stdio: (path: string, owner: string) => Upstream;
}

/** The server whose upstream is opened, and the session owner, who shares no session or process with another. */
export interface OpenedFor {
  readonly organization: string;
  readonly server: string;
  readonly owner: string;
}

/** Returns the upstream of a server for one session owner. */
export function openUpstream(
  upstream: UpstreamKind,
  at: OpenedFor,
  resources: UpstreamResources,
): Upstream {
  const opened = upstreamOf(upstream, at, resources);
  return { send: (request) => opened.send(request).then(withShortSessionId) };
}

function upstreamOf(
  upstream: UpstreamKind,
  { organization, server, owner }: OpenedFor,
  resources: UpstreamResources,
): Upstream {
  switch (upstream.kind) {
    case 'demo':
      return resources.demo;
    case 'http':
      return resources.http(upstream.url, upstream.publicOnly ?? false);
    case 'agent':
      return resources.agent(upstream.agentId, server, owner);
    case 'stdio':
      return resources.stdio(`${organization}/${server}`, owner);
  }
}

/** Sessions are remembered by an id that the upstream chooses. */
const maxSessionIdLength = 4096;

function withShortSessionId(answer: UpstreamAnswer): UpstreamAnswer | Promise<never> {
  const { length } = answer.sessionId ?? '';
  if (length <= maxSessionIdLength) return answer;
  return discardAnswer(answer).then(() => {
    const why = `its Mcp-Session-Id has ${length} characters, and ${maxSessionIdLength} are accepted`;
    throw new UpstreamError('broken', why, { detail: why });
  });
}
