import type { Clock } from '#clock/clock';
import type { Connection } from '#config/connection';
import { UsageError } from '#config/errors';
import { afterAcceptance, changedParts, type AcceptedToolStore } from '#pipeline/accepted-tools';
import { admittedTools } from '#pipeline/tool-lists';
import type { Command } from './command.ts';

/** `latchkey tools NAME`. */
export const toolsCommand: Command = {
  name: 'tools',
  operands: 'NAME|URL',
  summary: 'list the tools of a server and accept changed tools',
  about: `Lists the tools that this computer has seen of a server, and which of them changed since they were accepted. A tool
is accepted when it is first seen. It contacts no server.`,
  flags: {
    accept: { value: 'TOOL', repeated: true, doc: 'accept the last seen definition of a tool' },
    'accept-all': { doc: 'accept the last seen definition of all tools' },
    json: { doc: 'print one JSON object: {"tools":[…]}' },
  },
  options: ['config', 'state-dir'],
  examples: ['latchkey tools acme', 'latchkey tools acme --accept send_mail'],
  async run({ operands: [target = ''], flags, options: given }, host) {
    const options = host.options(given);
    if (options.secretStore === 'memory')
      throw new UsageError('--secret-store memory stores nothing about tools');
    const connection = await host.connection(target, options);
    const store = await host.acceptedTools(connection, options);
    const all = flags.has('accept-all');
    const accept = all ? ('all' as const) : (flags.get('accept') ?? []);
    const input = { connection, accept, json: flags.has('json') };
    for (const line of await tools(input, { store, clock: host.clock })) host.print(line);
    return 0;
  },
};

type ToolsInput = {
  connection: Connection;
  accept: readonly string[] | 'all';
  json: boolean;
};
type ToolsPorts = { store: AcceptedToolStore; clock: Clock };

/**
 * Runs `latchkey tools`: accepts the tools in `accept`, then lists the known tools of a server.
 *
 * @throws {UsageError} for a tool that was never seen
 */
async function tools(
  { connection, accept, json }: ToolsInput,
  { store, clock }: ToolsPorts,
): Promise<string[]> {
  let known = await store.read();
  const names = accept === 'all' ? [...known.keys()] : accept;
  const stranger = names.find((name) => !known.has(name));
  if (stranger !== undefined)
    throw new UsageError(
      `${connection.name} has no tool ${stranger} that was seen here`,
      `latchkey tools ${connection.name} lists the tools`,
    );
  if (names.length > 0) {
    known = afterAcceptance(known, names, clock.now());
    await store.write(known);
  }
  const { allowTools, denyTools, changedTools: mode = 'flag' } = connection;
  const admits = admittedTools({ allow: allowTools, deny: denyTools });
  const rows = [...known]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, tool]) => {
      const parts = changedParts(tool);
      const seen = parts.length > 0 ? ('changed' as const) : ('accepted' as const);
      const state = admits(name) ? seen : ('filtered' as const);
      const { acceptedAt, changedAt } = tool;
      return { name, state, changed: parts, acceptedAt, changedAt };
    });
  if (json) {
    const document = {
      tools: rows.map(({ acceptedAt, changedAt, ...row }) => ({
        ...row,
        withheld: row.state === 'changed' && mode === 'withhold',
        accepted_at: acceptedAt,
        ...(changedAt !== undefined && { changed_at: changedAt }),
      })),
    };
    return [JSON.stringify(document)];
  }
  const width = Math.max(0, ...rows.map(({ name }) => name.length));
  const lines = rows.map(({ name, state, changed, changedAt }) => {
    const words = {
      accepted: 'accepted',
      filtered: 'hidden by the tool lists of this connection',
      changed: `changed on ${day(changedAt)}: ${changed.join(', ')}${mode === 'withhold' ? '; withheld' : ''}`,
    };
    return `  ${name.padEnd(width)}  ${words[state]}`;
  });
  const changes = rows.some(({ state }) => state === 'changed');
  const head =
    rows.length > 0
      ? `${connection.name}: ${rows.length} ${rows.length === 1 ? 'tool' : 'tools'} seen`
      : `${connection.name}: no assistant has listed the tools yet`;
  const hint = changes
    ? `ask the server’s owner, then latchkey tools ${connection.name} --accept TOOL`
    : rows.length === 0 && `restart an assistant that starts ${connection.name}: it lists them`;
  return [head, ...lines, ...(hint === false ? [] : [`hint: ${hint}`])];
}

function day(at = 0): string {
  return new Date(at * 1000).toISOString().slice(0, 10);
}
