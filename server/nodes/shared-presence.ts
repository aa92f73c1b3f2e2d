import { sql } from 'kysely';
import { z } from 'zod';
import type { Db } from '#db/transaction';
import { LimitedMap } from '#model/limited-map';
import { RepeatedWork } from '#model/repeated-work';
import type { AgentTunnels } from '#upstreams/tunnel/agent-tunnels';
import { mergedPresence, type AgentPresence } from '#upstreams/tunnel/connected-agent';
import { databaseSeconds, leaseMs } from './node-registry.ts';

const exchangeEveryMs = 500;
const maxOrganizations = 10_000;

const presenceSchema = z.object({
  isOnline: z.literal(true),
  tunnels: z.int().positive(),
  versions: z.array(z.string()),
  servers: z.array(z.object({ name: z.string(), kind: z.string() })),
  activeCalls: z.int(),
  listening: z.int(),
  waiting: z.int(),
  calls: z.int(),
  failed: z.int(),
  lastError: z
    .object({ at: z.number(), message: z.string() })
    .nullish()
    .transform((error) => error ?? undefined),
});

interface RemotePresence {
  readonly organization: string;
  readonly text: string;
  readonly presence: AgentPresence;
}

/** The agents that another node wrote last, and the revision of that write. */
interface ReadNode {
  readonly revision: number;
  readonly agents: ReadonlyMap<string, RemotePresence>;
}

export interface SharedPresenceOptions {
  readonly db: Db;
  /** Names this process, as listed by `NodeRegistry`. */
  readonly instance: string;
  readonly tunnels: Pick<AgentTunnels, 'presenceOf' | 'presences' | 'revision'>;
  /** Called when the database did not answer. */
  readonly failed: (error: unknown) => void;
}

/**
 * Which agents are connected to any node, so that every node shows the same page. Twice a second, each node writes changes of its
 * agents to the database, and reads what others have written. What a node wrote is valid while the node is alive, so agents need
 * no heartbeats of their own, and NATS is not required.
 */
export class SharedPresence extends RepeatedWork {
  readonly #options: SharedPresenceOptions;
  readonly #organizations = new LimitedMap<string, number>(maxOrganizations);
  /** The texts that this node has written, by agent. */
  #written = new Map<string, string>();
  #writtenRevision: number | undefined;
  #ownRevision = 0;
  #nodes = new Map<string, ReadNode>();
  #revision = 0;

  constructor(options: SharedPresenceOptions) {
    super(exchangeEveryMs, options.failed);
    this.#options = options;
  }

  /** The state of an agent, over all nodes. */
  presenceOf(agentId: string): AgentPresence {
    const remote = [...this.#nodes.values()].flatMap(({ agents }) => {
      const found = agents.get(agentId);
      return found ? [found.presence] : [];
    });
    return mergedPresence([this.#options.tunnels.presenceOf(agentId), ...remote]);
  }

  /** A number that grows with each change of agents at another node: those of one organization, or of any. */
  revision(organization?: string): number {
    if (organization === undefined) return this.#revision;
    return this.#organizations.get(organization) ?? 0;
  }

  /** Writes and reads changes. After `close`, the records of this node expire with its entry in the list of nodes. */
  protected override async work(): Promise<void> {
    await this.#write();
    await this.#read();
  }

  async #write(): Promise<void> {
    const { db, instance, tunnels } = this.#options;
    const revision = tunnels.revision();
    if (revision === this.#writtenRevision) return;
    const now = new Map([...tunnels.presences()].map(([id, of]) => [id, JSON.stringify(of)]));
    const changed = [...now].filter(([id, text]) => this.#written.get(id) !== text);
    const gone = [...this.#written.keys()].filter((id) => !now.has(id));
    if (changed.length > 0 || gone.length > 0) {
      const ids = changed.map(([id]) => id);
      const texts = changed.map(([, text]) => text);
      await db.transaction().execute(async (tx) => {
        await sql`delete from agent_presence
          where instance = ${instance} and agent_id = any(${gone}::text[])`.execute(tx);
        // An agent may have been deleted since.
        await sql`insert into agent_presence (instance, agent_id, presence)
          select ${instance}, a.id, p.presence
            from unnest(${ids}::text[], ${texts}::text[]) as p (agent_id, presence) join agent a on a.id = p.agent_id
          on conflict (instance, agent_id) do update set presence = excluded.presence`.execute(tx);
        const { rows } = await sql<{ presence_revision: number }>`
          update node set presence_revision = presence_revision + 1
            where instance = ${instance} returning presence_revision`.execute(tx);
        this.#ownRevision = rows[0]?.presence_revision ?? 0;
      });
    }
    this.#written = now;
    this.#writtenRevision = revision;
  }

  async #read(): Promise<void> {
    const { db, instance } = this.#options;
    const alive = await sql<{ instance: string; presence_revision: number }>`
      select instance, presence_revision from node
        where seen_at >= ${databaseSeconds} - ${leaseMs / 1000}`.execute(db);
    const own = alive.rows.find((row) => row.instance === instance);
    // The database was unreachable for so long that another node removed the entry of this one.
    if (own && own.presence_revision !== this.#ownRevision) {
      this.#written = new Map();
      this.#writtenRevision = undefined;
      this.#ownRevision = own.presence_revision;
    }
    const nodes = new Map<string, ReadNode>();
    for (const { instance: name, presence_revision: revision } of alive.rows) {
      if (name === instance) continue;
      const known = this.#nodes.get(name);
      const isKnown = known?.revision === revision;
      nodes.set(name, isKnown ? known : { revision, agents: await this.#readAgents(name) });
    }
    const before = this.#nodes;
    this.#nodes = nodes;
    for (const name of new Set([...before.keys(), ...nodes.keys()])) {
      this.#compare(before.get(name)?.agents, nodes.get(name)?.agents);
    }
  }

  async #readAgents(instance: string): Promise<ReadNode['agents']> {
    const { rows } = await sql<{ agent_id: string; organization: string; presence: string }>`
      select p.agent_id, o.name as organization, p.presence from agent_presence p
        join agent a on a.id = p.agent_id join organization o on o.id = a.organization_id
        where p.instance = ${instance}`.execute(this.#options.db);
    const agents = new Map<string, RemotePresence>();
    for (const { agent_id: id, organization, presence: text } of rows) {
      // A node of another version may write a form that this one does not know.
      const presence = presenceSchema.safeParse(JSON.parse(text)).data;
      if (presence) agents.set(id, { organization, text, presence });
    }
    return agents;
  }

  #compare(before: ReadNode['agents'] = new Map(), after: ReadNode['agents'] = new Map()): void {
    if (before === after) return;
    for (const id of new Set([...before.keys(), ...after.keys()])) {
      if (before.get(id)?.text === after.get(id)?.text) continue;
      const { organization } = after.get(id) ?? before.get(id) ?? {};
      this.#revision += 1;
      if (organization !== undefined) this.#organizations.set(organization, this.#revision);
    }
  }
}
