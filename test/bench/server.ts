import { join } from 'node:path';
import { startProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { answers, httpLoad } from './http-load.ts';
import { interleaved, Measurements, type Figure } from './measurements.ts';
import { floor, latchkeyServer, type ServerRacer } from './server-contenders.ts';

const figures = {
  token: { name: 'tokens, 16 connections', unit: '1/s', digits: 0 },
  one: { name: 'tool calls, 1 connection', unit: '1/s', digits: 0 },
  oneMs: { name: 'the same, median answer time', unit: 'ms', digits: 2 },
  many: { name: 'tool calls, 64 connections', unit: '1/s', digits: 0 },
  manyMs: { name: 'the same, median answer time', unit: 'ms', digits: 1 },
} satisfies Record<string, Figure>;

const rounds = 5;
const seconds = 2;

/** Races authorization server and gateway; a Markdown table. */
export async function benchServer(log: (line: string) => void): Promise<string> {
  const measurements = new Measurements();
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const target = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'floors/mcp-target.ts')] }),
  );
  const [, origin = ''] = await target.line(/listening on (\S+)/);

  const racers: ServerRacer[] = [];
  const enter = (racer: ServerRacer) => {
    for (const program of racer.programs) stack.use(program);
    racers.push(racer);
  };
  enter(await floor(origin));
  await latchkeyServer(origin, folder).then(enter, (error: unknown) => {
    log(`left out: latchkey-server: ${error instanceof Error ? error.message : String(error)}`);
  });

  const { name: generator, load } = await httpLoad(folder);
  for (const { tokenRequest, toolCall } of racers) {
    await answers(tokenRequest, '"access_token"');
    await answers(toolCall, '"result"');
    await load(tokenRequest, 16, 1);
    await load(toolCall, 64, 1);
  }
  log(`${rounds} rounds of ${3 * seconds} s for each contender, loaded by ${generator}`);
  await interleaved(rounds, racers, async ({ name, tokenRequest, toolCall }) => {
    const tokens = await load(tokenRequest, 16, seconds);
    measurements.add(figures.token, name, tokens.perSecond);
    const one = await load(toolCall, 1, seconds);
    measurements.add(figures.one, name, one.perSecond);
    measurements.add(figures.oneMs, name, one.medianMs);
    const many = await load(toolCall, 64, seconds);
    measurements.add(figures.many, name, many.perSecond);
    measurements.add(figures.manyMs, name, many.medianMs);
  });

  return measurements.markdown(
    Object.values(figures),
    racers.map(({ name }) => name),
  );
}
