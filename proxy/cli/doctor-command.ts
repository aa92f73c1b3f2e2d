import type { Command } from './command.ts';
import { placeOptions } from './place-options.ts';

/** `latchkey doctor NAME`. */
export const doctorCommand: Command = {
  name: 'doctor',
  operands: '[NAME|URL]',
  arity: [0, 1],
  summary: 'what works, what does not, and what to do',
  about: `Looks at everything that a connection needs, or at this machine alone, to the end whatever fails.
The exit code is 1 when something does. It opens no browser and calls no tool.`,
  flags: {
    json: { doc: 'one JSON object: {"checks":[…]}' },
    bundle: { value: 'FILE', doc: 'write all of it into one zip, without secrets' },
  },
  options: placeOptions,
  examples: ['latchkey doctor acme', 'latchkey doctor acme --bundle doctor.zip'],
  async run({ operands: [target], flags, options: given }, machine) {
    const options = machine.options(given);
    const [file] = flags.get('bundle') ?? [];
    const { doctorLines, writeNew } = await import('./doctor.ts');
    const json = flags.has('json');
    const { findings, bundle } = await machine.doctor(target, options, {
      progress: (name) => machine.tell(`looking at ${name} …`),
      found: (finding) => {
        for (const line of json ? [] : doctorLines(finding)) machine.say(line);
      },
    });
    if (json) machine.say(JSON.stringify({ checks: findings }));
    if (file !== undefined) {
      await writeNew(file, await bundle());
      machine.tell(`wrote ${file}; look into it before you send it to anybody`);
    }
    return findings.some(({ state }) => state === 'fail') ? 1 : 0;
  },
};
