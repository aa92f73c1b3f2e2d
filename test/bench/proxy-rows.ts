import { join } from 'node:path';
import { runProgram } from '#support/processes';
import { Assistant, type Command } from './assistant.ts';
import type { ProxySetting } from './proxy-setting.ts';
import { processCost } from './process-cost.ts';
import type { Row, Slot } from './slots.ts';

const pipe = join(import.meta.dirname, 'floors/stdio-pipe.mjs');
const atOnce = 64;
const megabytes = 'x'.repeat(10_000_000);

type ProxyRow = Row<ProxySetting>;
type Kind = 'floor' | 'key' | 'token';

/** The rows of the proxy, each compared to a bare pipe. */
export const proxyRows: readonly ProxyRow[] = [
  row('start-key', 'start, key', 'key', { cpu: 1.1, rate: 0.91 }, starts),
  row('start-token', 'start, token from the keychain', 'token', { cpu: 1.3, rate: 0.77 }, starts),
  {
    ...row('start-name', 'start by name, key in the keychain', 'key', {}, starts),
    async ours(setting, build) {
      const { proxy } = setting.build(build);
      // All builds share one registry and one keychain, so each has a connection of its own.
      const connection = `bench-${build}`;
      const add = [proxy, 'add', connection, `${setting.origin}/mcp`, '--api-key'];
      const { command, args, env } = setting.command(add, `${build}-by-name`, 'key');
      const { code, stderr } = await runProgram(command, { args, env });
      if (code !== 0) throw new Error(`latchkey add: ${stderr}`);
      return starts(setting.command([proxy, connection], `${build}-by-name`));
    },
  },
  row('calls-key', '64 calls at once, key', 'key', { cpu: 1.3, rate: 0.85 }, calls('json')),
  row('calls-token', '64 calls at once, token', 'token', { cpu: 1.3, rate: 0.85 }, calls('json')),
  row('calls-events', '64 at once, answered as events', 'key', {}, calls('sse')),
  row('memory', 'after 5,000 calls', 'key', { memory: 1.25 }, memory),
  row('large-json', '10 MB answer, JSON', 'key', { cpu: 1.2, rate: 0.83 }, large('large-json')),
  row('large-events', '10 MB answer, events', 'key', { cpu: 1.2, rate: 0.83 }, large('large')),
  row('large-request', '10 MB request', 'key', { cpu: 1.2, rate: 0.83 }, large('json', megabytes)),
];

function row(
  name: string,
  title: string,
  kind: Kind,
  aims: ProxyRow['aims'],
  slotOf: (command: Command, setting: ProxySetting) => Promise<Slot>,
): ProxyRow {
  const unit = name.startsWith('calls') ? 'µs' : 'ms';
  return {
    name,
    title,
    unit,
    aims,
    ...(name === 'memory' && { mostSlots: 3 }),
    floor: async (setting) =>
      slotOf(setting.command([pipe, `${setting.origin}/mcp`], 'floor'), setting),
    async ours(setting, build) {
      const { proxy } = setting.build(build);
      const path = kind === 'token' ? '/signed-in' : '/mcp';
      return slotOf(setting.command([proxy, `${setting.origin}${path}`], build, kind), setting);
    },
  };
}

/** Slots of one start each, after a first start that signs in and fills caches. */
async function starts(command: Command): Promise<Slot> {
  const slot = async () => {
    const { assistant, startMs } = await Assistant.start(command);
    const cpu = cpuMs(assistant);
    await assistant.end();
    return { cpu, rate: 1000 / startMs };
  };
  await slot();
  return slot;
}

function calls(tool: string) {
  return async (command: Command, setting: ProxySetting): Promise<Slot> => {
    const assistant = setting.own(await ready(command));
    const during = async (seconds: number) => {
      const until = performance.now() + seconds * 1000;
      let answered = 0;
      await concurrently(async () => {
        if (performance.now() >= until) return false;
        await assistant.callTool(tool);
        answered += 1;
        return true;
      });
      return answered;
    };
    await during(1);
    return async (seconds) => {
      const before = cpuMs(assistant);
      const startedAt = performance.now();
      const answered = await during(seconds);
      const rate = (answered * 1000) / (performance.now() - startedAt);
      return { cpu: ((cpuMs(assistant) - before) * 1000) / answered, rate };
    };
  };
}

async function memory(command: Command): Promise<Slot> {
  return async () => {
    const assistant = await ready(command);
    let left = 5000;
    await concurrently(async () => {
      if (left-- <= 0) return false;
      await assistant.callTool('json');
      return true;
    });
    const bytes = processCost(assistant.program.pid)?.residentBytes ?? Number.NaN;
    await assistant.end();
    return { memory: bytes / 1e6 };
  };
}

/** One large call by a process that has just started, and the peak memory of that process. */
function large(tool: string, text?: string) {
  return async (command: Command): Promise<Slot> => {
    return async () => {
      const assistant = await ready(command);
      const before = cpuMs(assistant);
      const startedAt = performance.now();
      await assistant.callTool(tool, text);
      const rate = 1000 / (performance.now() - startedAt);
      const cost = processCost(assistant.program.pid);
      const [cpu, peak] = [cpuMs(assistant) - before, cost?.peakBytes ?? Number.NaN];
      await assistant.end();
      return { cpu, rate, memory: peak / 1e6 };
    };
  };
}

async function ready(command: Command): Promise<Assistant> {
  const { assistant } = await Assistant.start(command);
  assistant.initialized();
  await assistant.callTool('json');
  return assistant;
}

function cpuMs({ program }: Assistant): number {
  return processCost(program.pid)?.cpuMs ?? Number.NaN;
}

/** Keeps `atOnce` calls under way until `call` resolves with `false`. */
async function concurrently(call: () => Promise<boolean>): Promise<void> {
  const lane = async () => {
    while (await call());
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}
