import { assistantFile } from '#config/assistant-file';
import { checkRegistered, installLaunch } from '#config/install-launch';
import { launchEnvironment } from '#config/launch-environment';
import { npxHint } from '#config/own-package';
import { uninstallLaunch } from '#config/uninstall-launch';
import type { Command, CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

/** `latchkey install ASSISTANT NAME`. */
export const installCommand: Command = {
  name: 'install',
  operands: 'ASSISTANT NAME',
  arity: [2, 2],
  summary: 'let an assistant start a connection',
  about: `Writes an entry into the assistant's own file that starts the connection by absolute paths. The
assistants are claude-desktop, claude-code, gemini, cursor and vscode. Nothing else in the file
changes, and a copy of it stays beside it; uninstall takes it back.`,
  flags: {
    replace: { doc: 'also when the assistant has another entry of that name' },
    json: { doc: 'one JSON object' },
  },
  options: ['config', 'secret-store', 'secret-store-key-file', 'state-dir'],
  examples: [
    'latchkey install cursor sales',
    'latchkey install claude-code sales --config ./.mcp.json',
  ],
  async run(input, machine) {
    await install(input, machine);
    return 0;
  },
};

/** `latchkey uninstall ASSISTANT NAME`. */
export const uninstallCommand: Command = {
  name: 'uninstall',
  operands: 'ASSISTANT NAME',
  arity: [2, 2],
  summary: 'take that back',
  about: `Puts back what install found, byte for byte where nobody changed the file since; else it removes, or
puts back, that one entry. The connection itself stays.`,
  flags: { json: { doc: 'one JSON object' } },
  options: ['config', 'state-dir'],
  examples: [
    'latchkey uninstall cursor sales',
    'latchkey uninstall claude-code sales --config ./.mcp.json',
  ],
  async run(input, machine) {
    await uninstall(input, machine);
    return 0;
  },
};

/** `latchkey install`: what stands there already is left alone. */
async function install(input: CommandInput, machine: Machine): Promise<void> {
  const [assistant = '', name = ''] = input.operands;
  const { config: _, ...options } = machine.options(input.options);
  const target = assistantFile(assistant, input.options.config, machine);
  await checkRegistered(name, options, machine);
  const env = launchEnvironment(options, input.options, machine);
  const installed = await installLaunch(name, target, {
    options,
    env,
    machine,
    replace: input.flags.has('replace'),
  });
  const { file, changed, backup } = installed;
  if (input.flags.has('json'))
    return machine.say(JSON.stringify({ assistant, name, ...installed }));
  machine.say(
    changed
      ? `${target.title} starts ${name}: ${file}`
      : `${target.title} starts ${name} already: ${file}`,
  );
  if (backup !== undefined) machine.tell(`the file as it was: ${backup}`);
  const hint = npxHint(machine.launcher, machine);
  if (hint !== undefined) machine.tell(`hint: ${hint}`);
  if (changed) machine.tell(`next: restart ${target.title}`);
}

/** `latchkey uninstall`: the file as it was, or without the one entry where it has changed since. */
async function uninstall(input: CommandInput, machine: Machine): Promise<void> {
  const [assistant = '', name = ''] = input.operands;
  const options = machine.options(input.options);
  const target = assistantFile(assistant, input.options.config, machine);
  const { title, file } = target;
  const outcome = await uninstallLaunch(name, target, options, machine);
  if (input.flags.has('json'))
    return machine.say(JSON.stringify({ assistant, name, file, ...outcome }));
  const words = {
    restored: `${title} is as it was before ${name}: ${file}`,
    removed: `${title} starts ${name} no more: ${file}`,
    absent: `${title} did not start ${name}: ${file}`,
  };
  machine.say(words[outcome.did]);
  if (outcome.backup !== undefined) machine.tell(`the file as it was: ${outcome.backup}`);
}
