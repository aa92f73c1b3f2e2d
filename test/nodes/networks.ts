import { runProgram } from '#support/processes';
import type { NodePlace } from './installation.ts';

/** What one end of a cable leads to. */
export type Cable = 'postgres' | 'nats' | 'callers';

/** The address of the MCP server, which every node has a route to. */
export const upstreamAddress = '10.77.255.1';

const cables: readonly Cable[] = ['postgres', 'nats', 'callers'];

/**
 * A network namespace for each node, with three cables to this one: to PostgreSQL, to NATS, and to callers and MCP servers. A cable that
 * is unplugged loses packets silently, in both directions.
 */
export class Networks implements AsyncDisposable {
  readonly #names: string[] = [];
  readonly #prefix = `lk${process.pid % 10_000}`;
  readonly #sink = `${this.#prefix}-sink`;

  /** @throws {Error} unless this process may create network namespaces, as root may */
  static async create(count: number): Promise<Networks> {
    const networks = new Networks();
    try {
      await ip('address', 'add', `${upstreamAddress}/32`, 'dev', 'lo');
      // Packets for an unplugged cable must be lost, and must not take the default route out of this machine.
      const sink = networks.#sink;
      await ip('netns', 'add', sink);
      networks.#names.push(sink);
      await ip('link', 'add', sink, 'type', 'veth', 'peer', 'name', 'sink', 'netns', sink);
      // Without ARP every packet is sent, and never answered.
      await ip('link', 'set', sink, 'arp', 'off', 'up');
      await ip('-n', sink, 'link', 'set', 'sink', 'up');
      await ip('route', 'add', '10.77.0.0/16', 'dev', sink);
      for (let at = 0; at < count; at += 1) await networks.#add(at);
    } catch (error) {
      await networks[Symbol.asyncDispose]();
      throw error;
    }
    return networks;
  }

  /** Where node `at` is, given the ports that PostgreSQL and NATS listen on at every address. */
  place(at: number, ports: { postgres: number; nats: number }): NodePlace {
    return {
      host: address(at, 'callers', 2),
      prefix: ['ip', 'netns', 'exec', this.#name(at)],
      databaseUrl: `postgres://postgres@${address(at, 'postgres', 1)}:${ports.postgres}/latchkey`,
      natsUrl: `nats://${address(at, 'nats', 1)}:${ports.nats}`,
    };
  }

  async unplug(at: number, cable: Cable): Promise<void> {
    await ip('link', 'set', this.#link(at, cable), 'down');
  }

  async plugIn(at: number, cable: Cable): Promise<void> {
    await ip('link', 'set', this.#link(at, cable), 'up');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Deleting a namespace deletes its ends of the cables, and with them the other ends.
    for (const name of this.#names.splice(0)) await ip('netns', 'delete', name);
    await runProgram('ip', { args: ['address', 'delete', `${upstreamAddress}/32`, 'dev', 'lo'] });
  }

  async #add(at: number): Promise<void> {
    const name = this.#name(at);
    await ip('netns', 'add', name);
    this.#names.push(name);
    const inside = ['-n', name];
    await ip(...inside, 'link', 'set', 'lo', 'up');
    for (const cable of cables) {
      const [here, there] = [this.#link(at, cable), `to-${cable}`];
      await ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', name);
      await ip('address', 'add', `${address(at, cable, 1)}/30`, 'dev', here);
      await ip(...inside, 'address', 'add', `${address(at, cable, 2)}/30`, 'dev', there);
      await ip('link', 'set', here, 'up');
      await ip(...inside, 'link', 'set', there, 'up');
    }
    await ip(...inside, 'route', 'add', upstreamAddress, 'via', address(at, 'callers', 1));
  }

  #name(at: number): string {
    return `${this.#prefix}-${at}`;
  }

  /** At most 15 characters. */
  #link(at: number, cable: Cable): string {
    return `${this.#prefix}-${at}${cable.slice(0, 2)}`;
  }
}

/** `end` 1 is here, 2 in the namespace. */
function address(at: number, cable: Cable, end: 1 | 2): string {
  return `10.77.${10 * at + cables.indexOf(cable)}.${end}`;
}

async function ip(...args: string[]): Promise<void> {
  const { code, stderr } = await runProgram('ip', { args });
  if (code !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr.trim()}`);
}
