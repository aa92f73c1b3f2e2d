import type { ServerDependents } from '#organizations/server-directory';
import { counted } from './counted.ts';

/** What stops working with a server, counted, each in a sentence. */
export function lostWith({
  activeClients,
  activeKeys,
  activeGrants,
}: ServerDependents): readonly string[] {
  if (activeClients + activeKeys + activeGrants === 0) {
    return ['Nobody uses it: it has no OAuth clients, no API keys and no consents in force.'];
  }
  return [
    ...(activeClients > 0
      ? [
          `${counted(activeClients, 'OAuth client opens', 'OAuth clients open')} it; ${losing(activeClients)}.`,
        ]
      : []),
    ...(activeKeys > 0
      ? [`${counted(activeKeys, 'API key opens', 'API keys open')} it; ${losing(activeKeys)}.`]
      : []),
    ...(activeGrants > 0
      ? [
          `${counted(activeGrants, 'application acts', 'applications act')} for people here; ${losing(activeGrants)}.`,
        ]
      : []),
  ];
}

function losing(count: number): string {
  return count === 1 ? 'it loses access now' : 'they lose access now';
}
