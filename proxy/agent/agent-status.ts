import type { EpochSeconds } from '#clock/clock';
import { printable, redact } from 'latchkey-mcp/safe-text';

/** Something that happened to a running agent. Contains no secrets. */
export type AgentEvent =
  | { event: 'connecting'; server: string }
  | { event: 'connected'; server: string }
  | { event: 'waiting'; problem: string; remedy: string; seconds: number }
  | {
      event: 'bound';
      organization: string;
      agent: string;
      /** Bound in the dashboard and configured here. */
      serving: readonly string[];
      /** Configured here only. */
      unbound: readonly string[];
      /** Bound in the dashboard only. */
      unconfigured: readonly string[];
    }
  | { event: 'reloaded'; servers: readonly string[] }
  | { event: 'not_reloaded'; problem: string }
  /** A new key is in use. Calls in progress finish with the old key. */
  | { event: 'key_replaced' }
  /** The last call that used the old key has ended. */
  | { event: 'key_unused' }
  /** There is a new key, but the old one is still in use. */
  | { event: 'key_not_replaced'; problem: string; remedy: string }
  | { event: 'failed'; server: string; problem: string }
  /** The server has answered for the first time since it failed. */
  | { event: 'recovered'; server: string }
  | { event: 'stopping'; calls: number }
  | { event: 'stopped' };

function nothingToServe(unbound: readonly string[], unconfigured: readonly string[]): string {
  return unbound.length + unconfigured.length > 0
    ? 'nothing to serve yet:'
    : 'nothing to serve yet: add a server to the configuration of this agent, and assign it to the agent in the dashboard';
}

function eventLines(event: AgentEvent): string[] {
  switch (event.event) {
    case 'connecting':
      return [`connecting to ${event.server}`];
    case 'connected':
      return [`connected to ${event.server}`];
    case 'waiting':
      return [
        `not connected: ${event.problem}; retrying`,
        ...(event.remedy ? [`hint: ${event.remedy}`] : []),
      ];
    case 'bound': {
      const { organization, agent, serving, unbound, unconfigured } = event;
      return [
        `connected as agent ${agent} of ${organization}`,
        serving.length > 0
          ? `serving ${serving.join(', ')}`
          : nothingToServe(unbound, unconfigured),
        ...(unbound.length > 0
          ? [
              `not served, because the dashboard does not assign them to this agent: ${unbound.join(', ')}`,
            ]
          : []),
        ...(unconfigured.length > 0
          ? [`assigned to this agent, but not configured here: ${unconfigured.join(', ')}`]
          : []),
      ];
    }
    case 'reloaded':
      return [`configuration reloaded: ${event.servers.join(', ')}`];
    case 'not_reloaded':
      return [`configuration not reloaded: ${event.problem}`];
    case 'key_replaced':
      return ['connected with the new key'];
    case 'key_unused':
      return ['the old key is no longer used here and can be revoked'];
    case 'key_not_replaced':
      return [
        `the new key is not in use: ${event.problem}; the agent stays connected with the old key`,
        ...(event.remedy ? [`hint: ${event.remedy}`] : []),
      ];
    case 'failed':
      return [`${event.server}: ${event.problem}`];
    case 'recovered':
      return [`${event.server}: responding again`];
    case 'stopping':
      return [event.calls > 0 ? `stopping; calls still open: ${event.calls}` : 'stopping'];
    case 'stopped':
      return ['stopped'];
  }
}

export type AgentStatus = (event: AgentEvent) => void;

/**
 * `json`: one object per line. `plain`: lines for each new event, for a journal. `live`: the current state, rewritten
 * in place on a terminal, below the events.
 */
export type StatusForm = 'json' | 'plain' | 'live';

export function agentStatus(
  form: StatusForm,
  write: (text: string) => void,
  now: () => EpochSeconds,
): AgentStatus {
  const line = (text: string) => write(`${printable(redact(text))}\n`);
  const isRepeated = repeatedFailures();
  if (form === 'plain') {
    let last = '';
    return (event) => {
      if (isRepeated(event)) return;
      // Repeated attempts are not reported.
      if (event.event === 'connecting' && last !== '') return;
      const change = event.event === 'waiting' ? event.problem : event.event;
      if (event.event === 'waiting' && change === last) return;
      last = change;
      eventLines(event).forEach(line);
    };
  }
  if (form === 'json')
    return ({ event, ...fields }) => {
      const time = new Date(now() * 1_000).toISOString();
      line(JSON.stringify({ time, event, ...fields }));
    };
  const current = new Map<string, string[]>();
  let painted = 0;
  return (event) => {
    if (isRepeated(event)) return;
    // Moves up over the last state and clears everything below.
    if (painted > 0) write(`\u001b[${painted}A\u001b[0J`);
    const lines = eventLines(event);
    const time = new Date(now() * 1_000).toISOString().slice(11, 19);
    if (isMomentary(event)) for (const text of lines) line(`${time} ${text}`);
    else if (event.event === 'bound') current.set('bound', lines);
    else {
      current.set('connection', lines);
      if (event.event !== 'connected') current.delete('bound');
    }
    const shown = [...(current.get('connection') ?? []), ...(current.get('bound') ?? [])];
    for (const text of shown) line(text);
    painted = shown.length;
  };
}

/** Returns a function that recognizes failures already reported for the same server and unchanged since. */
function repeatedFailures(): (event: AgentEvent) => boolean {
  const problems = new Map<string, string>();
  return (event) => {
    if (event.event === 'recovered') problems.delete(event.server);
    if (event.event !== 'failed') return false;
    const { server, problem } = event;
    const isSame = problems.get(server) === problem;
    problems.set(server, problem);
    return isSame;
  };
}

/** Whether the event is a single occurrence rather than a lasting state. */
function isMomentary({ event }: AgentEvent): boolean {
  return /^(?:failed|recovered|(?:not_)?reloaded|key_\w+)$/.test(event);
}
