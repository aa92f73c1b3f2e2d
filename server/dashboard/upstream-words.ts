import type { ShownServer } from '#administration/shown-server';

/** Where the calls of a server go, for a cell of a table. */
export function upstreamWords({ upstream }: Pick<ShownServer, 'upstream'>): string {
  switch (upstream.kind) {
    case 'demo':
      return 'Demo library';
    case 'http':
      return upstream.url;
    case 'stdio':
      return 'A command of the server';
    case 'agent':
      return `Agent ${upstream.agent}`;
  }
}
