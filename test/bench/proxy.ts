import { join } from 'node:path';
import { startProgram } from '#support/processes';
import { keychainSession } from '#support/keychain-session';
import { lack, requirements } from '#support/requirements';
import { temporaryFolder } from '#support/temporary-folder';
import { Assistant, type Command } from './assistant.ts';
import { callDirectly } from './direct-call.ts';
import { installCost } from './install-cost.ts';
import { interleaved, median, Measurements, type Figure } from './measurements.ts';
import { processCost } from './process-cost.ts';
import { commandOf, proxyContenders } from './proxy-contenders.ts';

const figures = {
  start: { name: 'cold start: spawn to the `initialize` answer', unit: 'ms', digits: 0 },
  requests: { name: 'HTTP requests before that answer', unit: '', digits: 0 },
  idle: { name: 'memory, idle', unit: 'MB', digits: 0 },
  json: { name: 'one call after another, added to a direct one', unit: 'µs', digits: 0 },
  sse: { name: 'the same, answered as an event stream', unit: 'µs', digits: 0 },
  rate: { name: '64 calls at once', unit: 'calls/s', digits: 0 },
  cpu: { name: 'processor time a call, 64 at once', unit: 'µs', digits: 0 },
  worked: { name: 'memory after 5,000 calls', unit: 'MB', digits: 0 },
  large: { name: '10 MB result over an event stream', unit: 'ms', digits: 0 },
  peak: { name: 'peak memory of a process that carried it', unit: 'MB', digits: 0 },
  size: { name: 'installed size', unit: 'MB', digits: 1 },
  packages: { name: 'packages installed', unit: '', digits: 0 },
} satisfies Record<string, Figure>;

const startRounds = 15;
const largeRounds = 5;
const callRounds = 6;
/** A round is 2,500 calls, so the second one ends at 5,000. */
const sequentialCalls = 250;
const concurrentCalls = 2000;
const concurrency = 64;

/** Races every stdio proxy that starts on this machine; a Markdown table. */
export async function benchProxy(log: (line: string) => void): Promise<string> {
  const measurements = new Measurements();
  await using stack = new AsyncDisposableStack();
  const target = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'floors/mcp-target.ts')] }),
  );
  const [, origin = ''] = await target.line(/listening on (\S+)/);
  const { path: home } = stack.use(await temporaryFolder('bench'));
  const noKeychain = await lack(requirements.keychain);
  const session = noKeychain ? { env: {} } : stack.use(await keychainSession());

  for (const { name, installs } of proxyContenders) {
    if (installs === undefined) continue;
    log(`installing ${name}`);
    const cost = await installCost(installs);
    measurements.add(figures.size, name, cost.bytes / 1e6);
    measurements.add(figures.packages, name, cost.packages);
  }

  const racers: { readonly name: string; readonly command: Command }[] = [];
  for (const contender of proxyContenders) {
    const command = commandOf(contender, origin, session.env, home);
    const why = contender.keychain && noKeychain ? noKeychain : await trial(command);
    if (why) log(`left out: ${contender.name}: ${why}`);
    else racers.push({ name: contender.name, command });
  }

  log(`${startRounds} rounds of cold starts`);
  await interleaved(startRounds, racers, async ({ name, command }) => {
    const before = await requestCount(origin);
    const { assistant, startMs } = await Assistant.start(command);
    measurements.add(figures.requests, name, (await requestCount(origin)) - before);
    measurements.add(figures.start, name, startMs);
    await assistant.end();
  });

  log(`${largeRounds} rounds of a 10 MB result`);
  await interleaved(largeRounds, racers, async ({ name, command }) => {
    const { assistant } = await Assistant.start(command);
    assistant.initialized();
    await assistant.callTool('sse');
    const startedAt = performance.now();
    await assistant.callTool('large');
    measurements.add(figures.large, name, performance.now() - startedAt);
    const cost = processCost(assistant.program.pid);
    if (cost) measurements.add(figures.peak, name, cost.peakBytes / 1e6);
    await assistant.end();
  });

  const running: { name: string; assistant: Assistant; pid: number }[] = [];
  for (const { name, command } of racers) {
    const { assistant } = await Assistant.start(command);
    assistant.initialized();
    stack.defer(() => assistant.end());
    running.push({ name, assistant, pid: assistant.program.pid });
  }
  await new Promise((resolve) => setTimeout(resolve, 500));
  for (const { name, pid } of running) addMemory(measurements, figures.idle, name, pid);

  log(`${callRounds} rounds of calls`);
  await interleaved(callRounds, running, async ({ name, assistant, pid }, round) => {
    for (const tool of ['json', 'sse'] as const) {
      const direct = await eachTakes(() => callDirectly(origin, tool));
      const took = await eachTakes(() => assistant.callTool(tool));
      measurements.add(figures[tool], name, took - direct);
    }
    const before = processCost(pid);
    const seconds = await concurrently(() => assistant.callTool('json'));
    const after = processCost(pid);
    measurements.add(figures.rate, name, concurrentCalls / seconds);
    if (before && after) {
      const cpuUs = ((after.cpuMs - before.cpuMs) * 1000) / concurrentCalls;
      measurements.add(figures.cpu, name, cpuUs);
    }
    if (round === 1) addMemory(measurements, figures.worked, name, pid);
  });

  return measurements.markdown(
    Object.values(figures),
    racers.map(({ name }) => name),
  );
}

/** Tries `command`, which also warms compile caches and signs in. Returns why it cannot take part. */
async function trial(command: Command): Promise<string | undefined> {
  try {
    const { assistant } = await Assistant.start(command);
    assistant.initialized();
    await assistant.callTool('json');
    await assistant.end();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function requestCount(origin: string): Promise<number> {
  return Number(await (await fetch(`${origin}/count`)).text());
}

function addMemory(measurements: Measurements, figure: Figure, name: string, pid: number): void {
  const cost = processCost(pid);
  if (cost) measurements.add(figure, name, cost.residentBytes / 1e6);
}

/** The median time, in µs, of `sequentialCalls` calls, each made when the one before has answered. */
async function eachTakes(call: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let done = 0; done < sequentialCalls; done++) {
    const startedAt = performance.now();
    await call();
    times.push((performance.now() - startedAt) * 1000);
  }
  return median(times);
}

/** Seconds for `concurrentCalls` calls of which `concurrency` are always under way. */
async function concurrently(call: () => Promise<unknown>): Promise<number> {
  let left = concurrentCalls;
  const startedAt = performance.now();
  const lane = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return (performance.now() - startedAt) / 1000;
}
