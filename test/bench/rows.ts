import { parseArgs } from 'node:util';
import { temporaryFolder } from '#support/temporary-folder';
import { join } from 'node:path';
import { unpackedBuild, type Build } from './builds.ts';
import { gatewayRows } from './gateway-rows.ts';
import { Setting } from './gateway-setting.ts';
import { ProxySetting } from './proxy-setting.ts';
import { proxyRows } from './proxy-rows.ts';
import { inSlots, tableOf, type Measured, type Row, type Slot } from './slots.ts';

const root = join(import.meta.dirname, '../..');

/** What `npm run bench -- GROUP` says besides the group. */
export interface RowOptions {
  /** All of them when absent. */
  readonly rows: readonly string[] | undefined;
  readonly slots: number;
  readonly seconds: number;
  readonly against: string | undefined;
}

/** @throws {Error} when an option is unknown, or no number where one is wanted */
export function rowOptions(args: readonly string[]): { group: string | undefined } & RowOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      rows: { type: 'string' },
      slots: { type: 'string', default: '20' },
      seconds: { type: 'string', default: '0.5' },
      against: { type: 'string' },
    },
  });
  const number = (name: 'slots' | 'seconds') => {
    const value = Number(values[name]);
    if (!(value > 0)) throw new Error(`--${name} ${values[name]} is no number above 0`);
    return value;
  };
  return {
    group: positionals[0],
    rows: values.rows?.split(','),
    slots: number('slots'),
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
  { rows, slots: turns, seconds, against }: RowOptions,
  log: Log,
): Promise<string> {
  const names = all.map(({ name }) => name);
  const unknown = rows?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`no row '${unknown}'; there are ${names.join(', ')}`);
  await using folder = await temporaryFolder('bench-builds');
  log('building the packages');
  const builds: Record<string, Build> = { ours: await unpackedBuild('ours', root, folder.path) };
  if (against !== undefined) builds['before'] = await unpackedBuild('before', against, folder.path);
  await using setting = await Settings.create(builds);
  const measured: Measured[] = [];
  for (const row of all) {
    if (rows && !rows.includes(row.name)) continue;
    log(row.name);
    const slots: ['floor' | 'ours' | 'before', Slot][] = [];
    if (row.floor) slots.push(['floor', await row.floor(setting)]);
    slots.push(['ours', await row.ours(setting, 'ours')]);
    if (against !== undefined) slots.push(['before', await row.ours(setting, 'before')]);
    const most = Math.min(turns, row.mostSlots ?? turns);
    const own = { row, readings: await inSlots(slots, most, seconds) };
    measured.push(own);
    // Whoever interrupts a long run has the rows so far.
    log(tableOf([own]).split('\n').slice(2).join('\n'));
  }
  return tableOf(measured);
}
