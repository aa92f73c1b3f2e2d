import { clearOnline, noteCommands, setOnline } from '#db/agents';
import type { Db } from '#db/transaction';
import type { Clock, EpochSeconds } from '#model/clock';
import { RepeatedWork } from '#model/repeated-work';
import type { AgentTunnels } from './agent-tunnels.ts';
import type { AgentPresence } from './connected-agent.ts';

const lookEveryMs = 500;
/** How long a written row is valid, so that agents of a killed process do not stay online. */
const validSeconds = 60;
const renewAfterSeconds = 20;

export interface OnlineAgentsOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly tunnels: Pick<AgentTunnels, 'presences' | 'revision'>;
  /** Called when the database did not answer. */
  readonly failed: (error: unknown) => void;
}

/**
 * Writes to the database which agents are connected to this process, and which of their servers are commands. The API and commands, which
 * run in other processes, read it.
 */
export class OnlineAgents extends RepeatedWork {
  readonly #options: OnlineAgentsOptions;
  /** The agents that this process has written, and until when they are online. */
  #written: { readonly ids: ReadonlySet<string>; readonly until: EpochSeconds } = {
    ids: new Set(),
    until: 0,
  };
  /** The names of commands that this process has written, by agent. */
  #commands = new Map<string, string>();
  #revision: number | undefined;

  constructor(options: OnlineAgentsOptions) {
    super(lookEveryMs, options.failed);
    this.#options = options;
  }

  /** The agents of this process are offline from now on. */
  override async close(): Promise<void> {
    await super.close();
    const { ids, until } = this.#written;
    await clearOnline(this.#options.db, [...ids], until).catch(this.#options.failed);
  }

  /** Writes changes, and renews rows that will expire soon. */
  protected override async work(): Promise<void> {
    const { db, clock, tunnels } = this.#options;
    const revision = tunnels.revision();
    const now = clock.now();
    const { ids: before, until: validUntil } = this.#written;
    const isDue = before.size > 0 && validUntil - validSeconds + renewAfterSeconds <= now;
    if (revision === this.#revision && !isDue) return;
    const presences = tunnels.presences();
    const ids = new Set(presences.keys());
    const gone = [...before].filter((id) => !ids.has(id));
    const isNew = [...ids].some((id) => !before.has(id));
    const until = isNew || isDue ? now + validSeconds : validUntil;
    await clearOnline(db, gone, validUntil);
    if (isNew || isDue) await setOnline(db, [...ids], until);
    await this.#writeCommands(presences);
    this.#written = { ids, until };
    this.#revision = revision;
  }

  async #writeCommands(
    presences: ReadonlyMap<string, Pick<AgentPresence, 'servers'>>,
  ): Promise<void> {
    const written = new Map<string, string>();
    for (const [id, { servers }] of presences) {
      const commands = servers.filter(({ kind }) => kind === 'stdio').map(({ name }) => name);
      const text = JSON.stringify(commands.toSorted());
      if (this.#commands.get(id) !== text) await noteCommands(this.#options.db, id, commands);
      written.set(id, text);
    }
    this.#commands = written;
  }
}
