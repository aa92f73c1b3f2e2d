import { serverRead, serverUpdate } from '#administration/server-operations';
import { json, type Option } from '#config/option';
import { UsageError } from '#config/usage-error';
import { limitBounds, limitNames } from '#organizations/server-limits';
import { administer } from './administer.ts';
import type { Command } from './command.ts';
import { findServer } from './named-server.ts';
import { printMade } from './print.ts';

const optionNames = {
  callsPerMinute: 'calls-per-minute',
  concurrentCalls: 'concurrent-calls',
  requestBytes: 'request-bytes',
  answerBytes: 'answer-bytes',
  callSeconds: 'call-seconds',
} as const;

const docs = {
  callsPerMinute: 'requests of one caller in any minute; notifications twice as many',
  concurrentCalls: 'requests of one caller under way at once; open streams four times as many',
  requestBytes: 'the largest body of a request',
  answerBytes: 'the largest answer',
  callSeconds: 'the longest that a request and its answer may take',
} as const;

const options: readonly Option[] = limitNames.map((limit) => ({
  name: optionNames[limit],
  value: 'N|none',
  doc: docs[limit],
}));

export const serverLimit: Command = {
  words: 'server limit',
  positionals: ['ORG/SERVER'],
  options: [...options, json],
  doc: 'limit what a server takes and gives; none given shows what is limited',
  async run(input, { out, ...ports }) {
    const { organization, name } = await findServer(input.positionals[0] ?? '', ports.stores);
    const typed = limitNames.flatMap((limit) => {
      const text = input.text(optionNames[limit]);
      return text === undefined ? [] : [[limit, readLimit(limit, text)] as const];
    });
    const at = { organization, server: name };
    const change = { ...at, limits: Object.fromEntries(typed) };
    const { id, limits } =
      typed.length > 0
        ? await administer(serverUpdate, change, ports)
        : await administer(serverRead, at, ports);
    const shown = limitNames.map(
      (limit) => [optionNames[limit].replaceAll('-', '_'), limits[limit]] as const,
    );
    const facts = { id, name: `${organization}/${name}`, ...Object.fromEntries(shown) };
    printMade(facts, { json: input.flag('json'), out });
  },
};

/** @throws {UsageError} naming the option and its bounds */
function readLimit(limit: (typeof limitNames)[number], text: string): number | null {
  if (text === 'none') return null;
  const [least, most] = limitBounds[limit];
  const value = Number(text);
  if (/^\d{1,12}$/.test(text) && value >= least && value <= most) return value;
  const name = optionNames[limit];
  throw new UsageError(
    `--${name} '${text}' is neither none nor a whole number, ${least} to ${most}`,
  );
}
