import { parseArgs } from 'node:util';
import { temporaryFolder } from '#support/temporary-folder';
import { join } from 'node:path';
import { unpackedBuild, type Build } from './builds.ts';
import { gatewayRows } from './gateway-rows.ts';
import { Setting } from './gateway-setting.ts';
import { ProxySetting } from './proxy-setting.ts';
import { proxyRows } from './proxy-rows.ts';
import { inSlots, joined, tableOf, type Measured, type Row, type Slot } from './slots.ts';

const root = join(import.meta.dirname, '../..');

/** The options of `npm run bench -- GROUP`. */
export interface RowOptions {
  /** All of them when absent. */
  readonly rows: readonly string[] | undefined;
  readonly slots: number;
  /** How often all processes are started, to share the slots. */
  readonly starts: number;
  readonly seconds: number;
  readonly against: string | undefined;
}

/** @throws {Error} when an option is unknown, or the value of a numeric option is not above 0 */
export function rowOptions(args: readonly string[]): { group: string | undefined } & RowOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      rows: { type: 'string' },
      slots: { type: 'string', default: '15' },
      starts: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '0.5' },
      against: { type: 'string' },
    },
  });
  const number = (name: 'slots' | 'starts' | 'seconds') => {
    const value = Number(values[name]);
    if (!(value > 0)) throw new Error(`--${name} ${values[name]} is no number above 0`);
    return value;
  };
  return {
    group: positionals[0],
    rows: values.rows?.split(','),
    slots: number('slots'),
    starts: number('starts'),
    seconds: number('seconds'),
    against: values.against,
  };
}

export async function benchGatewayRows(options: RowOptions, log: Log): Promise<string> {
  return benchRows(gatewayRows, Setting, options, log);
}

export async function benchProxyRows(options: RowOptions, log: Log): Promise<string> {
  return benchRows(proxyRows, ProxySetting, options, log);
}

type Log = (line: string) => void;

interface SettingOf<S extends AsyncDisposable> {
  create(builds: Readonly<Record<string, Build>>): Promise<S>;
}

async function benchRows<S extends AsyncDisposable>(
  all: readonly Row<S>[],
  Settings: SettingOf<S>,
  { rows, slots, starts, seconds, against }: RowOptions,
  log: Log,
): Promise<string> {
  const names = all.map(({ name }) => name);
  const unknown = rows?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`no row '${unknown}'; there are ${names.join(', ')}`);
  await using folder = await temporaryFolder('bench-builds');
  log('building the packages');
  const builds: Record<string, Build> = { ours: await unpackedBuild('ours', root, folder.path) };
  if (against !== undefined) builds['before'] = await unpackedBuild('before', against, folder.path);
  const measured = new Map<string, Measured>();
  const unanswered = new Map<string, string>();
  for (let start = 0; start < starts; start += 1) {
    await using setting = await Settings.create(builds);
    for (const row of all) {
      const turns = turnsOf(Math.min(slots, row.mostSlots ?? slots), { starts, start });
      if (turns === 0 || (rows && !rows.includes(row.name))) continue;
      log(`${row.name}, start ${start + 1}`);
      const contenders: ['floor' | 'ours' | 'before', Slot][] = [];
      if (row.floor) contenders.push(['floor', await row.floor(setting)]);
      contenders.push(['ours', await row.ours(setting, 'ours')]);
      if (against !== undefined && !unanswered.has(row.name)) {
        const before = await row.ours(setting, 'before').catch((error: unknown) => {
          unanswered.set(row.name, firstLineOf(error));
        });
        if (before) contenders.push(['before', before]);
      }
      const readings = await inSlots(contenders, turns, seconds);
      const known = measured.get(row.name);
      measured.set(row.name, known ? joined(known, readings) : { row, readings });
      // Whoever interrupts a long run has the rows so far.
      log(tableOf([{ row, readings }]).split('\n').slice(2).join('\n'));
    }
  }
  const notes = [...unanswered].map(([name, why]) => `\n\n\`${name}\`, before: ${why}`);
  return tableOf([...measured.values()]) + notes.join('');
}

/** How many of all turns a start takes. */
export function turnsOf(
  all: number,
  { starts, start }: { readonly starts: number; readonly start: number },
): number {
  return Math.floor(all / starts) + (start < all % starts ? 1 : 0);
}

/** The first line of the error of an older version, which may not support what a row needs. */
function firstLineOf(error: unknown): string {
  const [line = ''] = String(error instanceof Error ? error.message : error).split('\n');
  return line;
}
