import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { temporaryFolder } from '#support/temporary-folder';
import { unpackedBuild, type Build } from './builds.ts';
import { called, modernCall, plain, warming } from './gateway-rows.ts';
import { callOf, inSession, Setting } from './gateway-setting.ts';
import { processCost } from './process-cost.ts';
import type { RowOptions } from './rows.ts';
import { inSlots, ratiosOf, valueOf, withQuartiles, type Reading, type Slot } from './slots.ts';
import { socketLoad } from './socket-load.ts';
import type { Shot } from './shot.ts';

const root = join(import.meta.dirname, '../..');
const connections = 64;
/** After this time all calls of a slot are written, because rows wait for a second at most. */
const writtenAfterMs = 1200;
const modes = ['off', 'on', 'required'] as const;

const calls = {
  'json-key': { title: 'JSON, key', server: 'http', shot: plain('json') },
  'session-events': { title: 'events in a session', server: 'session', shot: plain('sse') },
  'modern-to-legacy': {
    title: 'modern caller, legacy server',
    server: 'http',
    shot: modernCall,
  },
} as const;

/**
 * Measures what recording calls costs, with `--call-log off`, `on` and `required` in the same turns as the floor. The cost of a mode is
 * the difference between its slots and those of `off`, turn by turn. Returns a Markdown table.
 */
export async function benchRecording(
  { rows = ['json-key'], slots: turns, seconds, against }: RowOptions,
  log: (line: string) => void,
): Promise<string> {
  const unknown = rows.find((name) => !(name in calls));
  if (unknown !== undefined) {
    throw new Error(`no row '${unknown}'; there are ${Object.keys(calls).join(', ')}`);
  }
  await using folder = await temporaryFolder('bench-builds');
  const builds: Record<string, Build> = { ours: await unpackedBuild('ours', root, folder.path) };
  if (against !== undefined) builds['before'] = await unpackedBuild('before', against, folder.path);
  await using setting = await Setting.create(builds);
  const table = [
    ['row', 'contender', 'processor time, µs', '× the floor', 'more than off, µs', 'rate, 1/s'],
    ['---', '---', '--:', '--:', '--:', '--:'],
  ];
  for (const [name, { title, server, shot }] of Object.entries(calls)) {
    if (!rows.includes(name)) continue;
    log(name);
    const slotOf = async (build: string, mode: string): Promise<Slot> => {
      const running = await setting.sqlite(build, 1, mode, ['--call-log', mode]);
      const own = callOf(running, running, server, shot);
      return written(server === 'session' ? await inSession(own) : own, running.program.pid);
    };
    const slots: [string, Slot][] = [['floor', await called(name, title, {}, shot).floor(setting)]];
    for (const build of Object.keys(builds)) {
      for (const mode of modes) slots.push([labelOf(build, mode), await slotOf(build, mode)]);
    }
    const readings = await inSlots(slots, turns, seconds);
    const of = (contender: string, figure: keyof Reading) =>
      (readings[contender] ?? []).map((reading) => reading[figure] ?? Number.NaN);
    for (const [contender] of slots) {
      const cpu = of(contender, 'cpu');
      const off = of(contender.startsWith('before') ? 'before off' : 'off', 'cpu');
      const more = cpu.map((spent, turn) => spent - (off[turn] ?? Number.NaN));
      const isMode = contender !== 'floor' && !contender.endsWith('off');
      table.push([
        title,
        contender,
        valueOf(cpu),
        contender === 'floor' ? '–' : `×${withQuartiles(ratiosOf(cpu, of('floor', 'cpu')), 2)}`,
        isMode ? withQuartiles(more, 1) : '–',
        valueOf(of(contender, 'rate')),
      ]);
    }
  }
  return table.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function labelOf(build: string, mode: string): string {
  return build === 'ours' ? mode : `${build} ${mode}`;
}

/** Slots of load, whose processor time includes writing the calls. */
async function written(shot: Shot, pid: number): Promise<Slot> {
  await socketLoad(shot, connections, warming);
  const spent = () => processCost(pid)?.cpuMs ?? Number.NaN;
  return async (seconds) => {
    await pause(writtenAfterMs);
    let before = Number.NaN;
    const meter = () => {
      if (Number.isNaN(before)) before = spent();
    };
    const { calls: made, perSecond } = await socketLoad(shot, connections, { seconds, meter });
    await pause(writtenAfterMs);
    return { cpu: ((spent() - before) * 1000) / made, rate: perSecond };
  };
}
