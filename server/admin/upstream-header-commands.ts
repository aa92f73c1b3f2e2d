import { json, masterKeyFile } from '#config/option';
import type { Input } from '#config/read-options';
import { UsageError } from '#config/usage-error';
import { administer, type Command } from './command.ts';
import { placeOf } from './positionals.ts';
import { type Out, printRows } from './print.ts';
import { httpHeaderFile, readHeaders } from './read-headers.ts';
import {
  headerForgetPrevious as forgetPrevious,
  headerList as list,
  headerRemove as remove,
  headerRestore as restore,
  headerSet as set,
  type HeadersView,
} from './upstream-headers.ts';

const path = ['ORG/SERVER'];
const header = [...path, 'NAME'];

export const serverSetHeader: Command = {
  words: 'server set-header',
  positionals: path,
  options: [{ ...httpHeaderFile, required: true }, masterKeyFile, json],
  doc: 'add a fixed header, or replace its value; for seven days, the previous value is sent if the new one is refused',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const given = readHeaders(input);
    if (new Set(given.map(({ name }) => name.toLowerCase())).size < given.length) {
      throw new UsageError('--http-header-file names a header twice');
    }
    for (const { name, value } of given) await administer(set, { ...at, name, value }, ports);
    print(await administer(list, at, ports), input, out);
  },
};

export const serverListHeaders: Command = {
  words: 'server list-headers',
  positionals: path,
  options: [json],
  doc: 'list the fixed headers of the requests to an HTTP server, without their values',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    print(await administer(list, at, ports), input, out);
  },
};

export const serverRestoreHeader: Command = {
  words: 'server restore-header',
  positionals: header,
  options: [json],
  doc: 'send the previous value of a fixed header again; the current one becomes the previous',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    print(await administer(restore, { ...at, header: nameIn(input) }, ports), input, out);
  },
};

export const serverRemoveHeader: Command = {
  words: 'server remove-header',
  positionals: header,
  options: [{ name: 'previous', doc: 'forget only the previous value' }, json],
  doc: 'remove a fixed header and its values immediately; this cannot be undone',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const operation = input.flag('previous') ? forgetPrevious : remove;
    print(await administer(operation, { ...at, header: nameIn(input) }, ports), input, out);
  },
};

function nameIn(input: Input): string {
  return input.positionals[1] ?? '';
}

function print({ items, refusedAt }: HeadersView, input: Input, out: Out): void {
  const rows = items.map(({ name, hint, setAt, previous }) => ({
    name,
    hint,
    set_at: setAt,
    previous_hint: previous?.hint ?? null,
    previous_until_at: previous?.until ?? null,
    refused_at: previous ? refusedAt : null,
  }));
  printRows(rows, { json: input.flag('json'), empty: 'no fixed headers', out });
}
