import type { ServerRecord } from '#organizations/server-record';

/** Where a server's calls go. What was made at one place is nothing, or somebody else's, at another. */
export function upstreamPlace({ upstream }: Pick<ServerRecord, 'upstream'>): string {
  switch (upstream.kind) {
    case 'http':
      return upstream.url;
    case 'agent':
      return upstream.agentId;
    case 'stdio':
    case 'demo':
      return upstream.kind;
  }
}
