import type { AgentPresence } from '#tunnel/agent-presence';
import type { Fact } from '#pages/fact';
import { counted } from './counted.ts';

/** Whether the agent is there, in words. */
export function presenceWords({ isOnline, tunnels }: AgentPresence): string {
  if (!isOnline) return 'Offline';
  return tunnels === 1 ? 'Online' : `Online, by ${tunnels} connections`;
}

/** How an agent stands at this moment. `bound` are the servers that the dashboard bound to it. */
export function agentFacts(presence: AgentPresence, bound: readonly string[]): readonly Fact[] {
  const { isOnline, versions, servers, trouble } = presence;
  const more = servers.map(({ name }) => name).filter((name) => !bound.includes(name));
  return [
    { label: 'Status', text: presenceWords(presence) },
    ...(isOnline ? [{ label: 'Version', text: versions.join(', ') }] : []),
    ...(isOnline ? [{ label: 'Calls under way', text: callWords(presence) }] : []),
    ...(more.length > 0 ? [{ label: 'Could also serve', text: more.join(', ') }] : []),
    {
      label: 'Calls since this server started',
      text:
        presence.failed === 0
          ? `${presence.calls}`
          : `${presence.calls}, ${presence.failed} failed`,
    },
    ...(trouble ? [{ label: 'Last error', text: trouble.words }] : []),
    ...(trouble
      ? [
          {
            label: 'Last error at',
            cell: { kind: 'time', at: trouble.at, otherwise: '' } as const,
          },
        ]
      : []),
  ];
}

/** Whether the agent offers a server that is bound to it. */
export function offerWords({ isOnline, servers }: AgentPresence, server: string): string {
  if (!isOnline) return 'the agent is offline';
  const offered = servers.find(({ name }) => name === server);
  return offered ? `served, ${offered.kind}` : 'not in the configuration of the agent';
}

function callWords({ callsUnderWay, waiting, listening }: AgentPresence): string {
  const parts = [`${callsUnderWay}`];
  if (waiting > 0) parts.push(`${waiting} waiting`);
  if (listening > 0) parts.push(counted(listening, 'stream listens', 'streams listen'));
  return parts.join(', ');
}
