import { UsageError } from '#config/usage-error';
import type { Command } from './command.ts';

/** `latchkey tools NAME`. */
export const toolsCommand: Command = {
  name: 'tools',
  operands: 'NAME|URL',
  arity: [1, 1],
  summary: 'which tools were seen, and what changed since',
  about: `Lists the tools that a server has shown here, and those that are other than they were accepted. A
tool is accepted when it is first seen. It reads this machine alone and asks no server.`,
  flags: {
    accept: { value: 'TOOL', repeated: true, doc: 'accept a tool as it was last seen' },
    'accept-all': { doc: 'accept all of them so' },
    json: { doc: 'one JSON object: {"tools":[…]}' },
  },
  options: ['config', 'state-dir'],
  examples: ['latchkey tools acme', 'latchkey tools acme --accept send_mail'],
  async run({ operands: [target = ''], flags, options: given }, machine) {
    const options = machine.options(given);
    if (options.secretStore === 'memory')
      throw new UsageError('with --secret-store memory nothing is kept of tools');
    const connection = await machine.connection(target, options);
    const store = await machine.acceptedTools(connection, options);
    const { tools } = await import('./tools.ts');
    const all = flags.has('accept-all');
    const accept = all ? ('all' as const) : (flags.get('accept') ?? []);
    const input = { connection, accept, json: flags.has('json') };
    for (const line of await tools(input, { store, clock: machine.clock })) machine.say(line);
    return 0;
  },
};
