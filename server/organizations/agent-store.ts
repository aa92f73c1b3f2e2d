import type { EpochSeconds } from '#clock/clock';

/** An on-premise agent: a program in a private network that serves what the dashboard bound to it. */
export interface Agent {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** Prefix and last four characters of its newest key; its keys are made beside it. */
  readonly keyHint: string | undefined;
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
  readonly revokedAt: EpochSeconds | undefined;
}

/** Where agents are kept. */
export interface AgentStore {
  /** `false` when the organization has an agent of that name. */
  add(agent: Omit<Agent, 'keyHint' | 'lastUsedAt' | 'revokedAt'>): Promise<boolean>;

  byName(organization: string, name: string): Promise<Agent | undefined>;

  byId(id: string): Promise<(Agent & { readonly organization: string }) | undefined>;

  /** Revokes the agent and every key of it; `false` when there is none, or it was revoked before. */
  revoke(id: string, now: EpochSeconds): Promise<boolean>;
}
