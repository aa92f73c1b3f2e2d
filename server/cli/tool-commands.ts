import { toolAccept as accept, toolList as list } from '#administration/tool-operations';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { administer } from './administer.ts';
import type { Command } from './command.ts';
import { placeOf } from './named-server.ts';
import { printMade, printRows } from './print.ts';

const path = ['ORG/SERVER'];

export const serverTools: Command = {
  words: 'server tools',
  positionals: path,
  options: [json],
  doc: 'list the tools that a server told its callers of, and which turned into others since',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const { items } = await administer(list, at, ports);
    const rows = items.map(({ name, acceptedAt, changed }) => ({
      name,
      accepted_at: acceptedAt,
      changed_at: changed?.changedAt ?? null,
      digest: changed?.digest ?? null,
    }));
    const empty = 'no caller has listed its tools yet';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const serverAcceptTools: Command = {
  words: 'server accept-tools',
  positionals: path,
  options: [
    { name: 'tool', value: 'NAME', repeated: true, doc: 'a tool that turned into another one' },
    json,
  ],
  doc: 'accept changed tools as their server tells them now',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const names = input.list('tool');
    const { items } = await administer(list, at, ports);
    const tools = items.flatMap(({ name, changed }) =>
      changed && names.includes(name) ? [{ name, digest: changed.digest }] : [],
    );
    const missing = names.filter((name) => !tools.some((tool) => tool.name === name));
    if (names.length === 0 || missing.length > 0)
      throw new CommandError(
        names.length === 0
          ? 'no tool is named'
          : `no changed tool of ${at.organization}/${at.server} is called ${missing.join(', ')}`,
        `latchkey-server server tools ${at.organization}/${at.server}`,
      );
    const { accepted } = await administer(accept, { ...at, tools }, ports);
    const facts = { name: `${at.organization}/${at.server}`, accepted };
    printMade({ id: accepted.join(' '), ...facts }, { json: input.flag('json'), out });
  },
};
