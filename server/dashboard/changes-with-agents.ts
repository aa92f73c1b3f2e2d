import type { ChangeStore } from './change-store.ts';

/** Tells that agents came, left, or have more or fewer calls under way. */
export interface AgentChanges {
  /** Another number than before; for one organization, or for all of them. */
  revision(organization?: string): number;
}

/** Changes of the database together with those of the agents, which no database knows. */
export function changesWithAgents(changes: ChangeStore, agents: AgentChanges): ChangeStore {
  return {
    written: () => `${changes.written()} ${agents.revision()}`,
    async stateOf(organization, server) {
      const state = await changes.stateOf(organization, server);
      return server === undefined ? `${state} ${agents.revision(organization)}` : state;
    },
  };
}
