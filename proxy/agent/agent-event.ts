/** One fact about a running agent. Without secrets. */
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
      /** Configured here alone. */
      unbound: readonly string[];
      /** Bound in the dashboard alone. */
      unconfigured: readonly string[];
    }
  | { event: 'reloaded'; servers: readonly string[] }
  | { event: 'not_reloaded'; problem: string }
  /** Another key is in use; calls in the tunnel of the one before finish. */
  | { event: 'key_replaced' }
  /** The last of those calls has ended. */
  | { event: 'key_left' }
  /** Another key lies there, and the one before is in use all the same. */
  | { event: 'key_not_replaced'; problem: string; remedy: string }
  | { event: 'failed'; server: string; problem: string }
  | { event: 'stopping'; calls: number }
  | { event: 'stopped' };

/** The fact as lines for a person. */
export function factLines(fact: AgentEvent): string[] {
  switch (fact.event) {
    case 'connecting':
      return [`connecting to ${fact.server}`];
    case 'connected':
      return [`connected to ${fact.server}`];
    case 'waiting':
      return [
        `not connected: ${fact.problem}; trying again by itself`,
        ...(fact.remedy ? [`hint: ${fact.remedy}`] : []),
      ];
    case 'bound': {
      const { organization, agent, serving, unbound, unconfigured } = fact;
      return [
        `this is agent ${agent} of ${organization}`,
        serving.length > 0
          ? `serving ${serving.join(', ')}`
          : 'serving nothing: no server is both configured here and bound to this agent',
        ...(unbound.length > 0
          ? [`not served, as the dashboard binds them elsewhere: ${unbound.join(', ')}`]
          : []),
        ...(unconfigured.length > 0
          ? [`bound to this agent, but not configured here: ${unconfigured.join(', ')}`]
          : []),
      ];
    }
    case 'reloaded':
      return [`configuration read again: ${fact.servers.join(', ')}`];
    case 'not_reloaded':
      return [`configuration not taken over: ${fact.problem}`];
    case 'key_replaced':
      return ['connected with the new key'];
    case 'key_left':
      return ['the key before it is not used here any more, and can be revoked'];
    case 'key_not_replaced':
      return [
        `the new key is not in use: ${fact.problem}; what was connected stays so`,
        ...(fact.remedy ? [`hint: ${fact.remedy}`] : []),
      ];
    case 'failed':
      return [`${fact.server}: ${fact.problem}`];
    case 'stopping':
      return [fact.calls > 0 ? `stopping, once ${fact.calls} calls have ended` : 'stopping'];
    case 'stopped':
      return ['stopped'];
  }
}
