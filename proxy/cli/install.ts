import { assistantFile } from '#config/assistant-file';
import { checkRegistered, installLaunch } from '#config/install-launch';
import { launchEnvironment } from '#config/launch-environment';
import { npxHint } from '#config/own-package';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

/** `latchkey install`: what stands there already is left alone. */
export async function install(input: CommandInput, machine: Machine): Promise<void> {
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
