import { join } from 'node:path';
import { startProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import {
  httpFloors,
  latchkeyGateway,
  stdioFloor,
  stdioPeer,
  stdioPeers,
  type GatewayRacer,
} from './gateway-contenders.ts';
import { answers, httpLoad } from './http-load.ts';
import { interleaved, Measurements, type Figure } from './measurements.ts';
import { processCost } from './process-cost.ts';

const figures = {
  one: { name: '1 connection, calls/s', unit: '', digits: 0 },
  oneMs: { name: 'the same, median answer time', unit: 'ms', digits: 3 },
  many: { name: '64 connections, calls/s', unit: '', digits: 0 },
  manyMs: { name: 'the same, median answer time', unit: 'ms', digits: 2 },
  cpu: { name: 'processor time a call, 64 connections', unit: 'µs', digits: 0 },
  memory: { name: 'memory after all calls', unit: 'MB', digits: 0 },
} satisfies Record<string, Figure>;

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
const seconds = 2;

/** Races the programs that stand in front of an MCP server, on HTTP and on stdio. Returns two Markdown tables. */
export async function benchGateway(log: (line: string) => void): Promise<string> {
  const measurements = new Measurements();
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const target = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'floors/mcp-target.ts')] }),
  );
  const [, origin = ''] = await target.line(/listening on (\S+)/, { timeoutMs: 60_000 });
  const entered = (racer: GatewayRacer) => {
    for (const program of racer.programs) stack.use(program);
    return racer;
  };
  const ours = await latchkeyGateway(origin, folder);
  for (const program of ours.programs) stack.use(program);
  const [floor, direct] = await httpFloors(origin);
  const overHttp = [entered(floor), direct, ours.http, ours.agent];
  const overStdio = [entered(await stdioFloor()), ours.stdio];
  for (const { name, args } of stdioPeers) {
    await stdioPeer(name, args).then(
      (racer) => overStdio.push(entered(racer)),
      (error: unknown) => log(`left out: ${name}: ${String(error)}`),
    );
  }

  const { name: generator, load } = await httpLoad(folder);
  const racers = [...overHttp, ...overStdio];
  for (const { shot } of racers) {
    await answers(shot, '"result"');
    await load(shot, 64, 2);
  }
  log(`${rounds} rounds of ${2 * seconds} s for each of ${racers.length}, loaded by ${generator}`);
  await interleaved(rounds, racers, async ({ name, shot, programs }) => {
    const one = await load(shot, 1, seconds);
    measurements.add(figures.one, name, one.perSecond);
    measurements.add(figures.oneMs, name, one.medianMs);
    const before = programs.map(({ pid }) => processCost(pid)?.cpuMs ?? Number.NaN);
    const many = await load(shot, 64, seconds);
    measurements.add(figures.many, name, many.perSecond);
    measurements.add(figures.manyMs, name, many.medianMs);
    const after = programs.map(({ pid }) => processCost(pid)?.cpuMs ?? Number.NaN);
    if (programs.length === 0) return;
    const spentMs = sum(after) - sum(before);
    measurements.add(figures.cpu, name, (spentMs * 1000) / (many.perSecond * seconds));
  });
  for (const { name, programs } of racers) {
    if (programs.length === 0) continue;
    const bytes = programs.map(({ pid }) => processCost(pid)?.residentBytes ?? Number.NaN);
    measurements.add(figures.memory, name, sum(bytes) / 1e6);
  }
  const table = (group: readonly GatewayRacer[]) =>
    measurements.markdown(
      Object.values(figures),
      group.map(({ name }) => name),
    );
  return `${table(overHttp)}\n\n${table(overStdio)}`;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
