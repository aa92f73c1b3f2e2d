import { type Upstream, type UpstreamAnswer, UpstreamError } from '#gateway/upstream';
import type { Target } from '#model/endpoints';
import { discardAnswer } from '#gateway/answers';
import type { Admission } from '#gateway/admission';

/** The functions that open upstreams of each kind. */
export interface UpstreamResources {
  readonly http: (url: string, publicOnly: boolean) => Upstream;
  readonly agent: (agentId: string, server: string, owner: string) => Upstream;
  readonly demo: Upstream;
  /** Needs a caller, because it calls the members as that caller. */
  readonly collection: (
    target: Target,
    owner: string,
    admission: Admission | undefined,
  ) => Upstream;
  /** `path` is `organization/server`. */
  readonly stdio: (path: string, owner: string) => Upstream;
}

/**
 * Opens a target for one session owner, who shares no session or process with another. `admission` is that of the caller;
 * absent for a probe.
 */
export function openUpstream(
  target: Target,
  owner: string,
  resources: UpstreamResources,
  admission?: Admission,
): Upstream {
  const opened = upstreamOf(target, owner, resources, admission);
  return { send: (request) => opened.send(request).then(withShortSessionId) };
}

function upstreamOf(
  target: Target,
  owner: string,
  resources: UpstreamResources,
  admission: Admission | undefined,
): Upstream {
  const { organization, name, upstream } = target;
  switch (upstream.kind) {
    case 'demo':
      return resources.demo;
    case 'http':
      return resources.http(upstream.url, upstream.publicOnly ?? false);
    case 'agent':
      return resources.agent(upstream.agentId, name, owner);
    case 'stdio':
      return resources.stdio(`${organization}/${name}`, owner);
    case 'collection':
      return resources.collection(target, owner, admission);
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
