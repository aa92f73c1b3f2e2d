import { assistantFile } from '#config/assistant-file';
import { uninstallLaunch } from '#config/uninstall-launch';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

/** `latchkey uninstall`: the file as it was, or without the one entry where it has changed since. */
export async function uninstall(input: CommandInput, machine: Machine): Promise<void> {
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
