import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { ServerRecord } from '#organizations/server-record';
import type { ToolDefinition } from './tool-definition.ts';
import type { ToolDefinitionStore } from './tool-definition-store.ts';

export interface ToolWatchPorts {
  readonly definitions: Pick<ToolDefinitionStore, 'note'>;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}

const mostServers = 1_000;
/** A server can make names up without end; a list of more tools is held against the store each time. */
const mostSeen = 5_000;
const mostTold = 10_000;

/**
 * Holds every list of tools that comes by against what was accepted of them. A tool that turns into another
 * one behind its name is the oldest trick on assistants: it is written into the audit log, and withheld where
 * the server's administrators want that.
 */
export class ToolWatch {
  readonly #ports: ToolWatchPorts;
  /** The digests that were seen last, by server and name: the same again tells nothing new. */
  readonly #seen = new Map<string, Map<string, string>>();
  /** Changes that were written down: a server that tells its callers different things flickers. */
  readonly #told = new Set<string>();

  constructor(ports: ToolWatchPorts) {
    this.#ports = ports;
  }

  /** Looks at the tools of an answer to `tools/list`. Names those that are other than accepted. */
  async look(server: ServerRecord, tools: readonly ToolDefinition[]): Promise<readonly string[]> {
    const seen = this.#seenOf(server.id);
    if (tools.every(({ name, digest }) => seen.get(name) === digest)) return server.withheldTools;
    const { definitions, clock } = this.#ports;
    const { changed, open } = await definitions.note(server.id, tools, clock.now());
    for (const tool of changed) await this.#tell(server, tool);
    if (seen.size + tools.length > mostSeen) seen.clear();
    for (const { name, digest } of tools.slice(0, mostSeen)) seen.set(name, digest);
    return tools.map(({ name }) => name).filter((name) => !open.includes(name));
  }

  #seenOf(serverId: string): Map<string, string> {
    const known = this.#seen.get(serverId);
    if (known) return known;
    if (this.#seen.size >= mostServers) this.#seen.clear();
    const made = new Map<string, string>();
    this.#seen.set(serverId, made);
    return made;
  }

  async #tell(server: ServerRecord, { name, digest }: ToolDefinition): Promise<void> {
    const { organization, id } = server;
    const change = `${id} ${digest} ${name}`;
    if (this.#told.has(change)) return;
    await this.#ports.audit.append({
      at: this.#ports.clock.now(),
      actor: 'nobody',
      organization,
      action: 'tool.changed',
      target: `tool:${organization}/${server.name}/${name}`.slice(0, 200),
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
    if (this.#told.size >= mostTold) this.#told.clear();
    this.#told.add(change);
  }
}
