import type { Command } from '#admin/command';
import { shellWord } from '#model/shell-word';
import { AdministrationRefusal } from '#admin/refusal';
import { CommandError, UsageError } from '#config/usage-error';

// Pages, the API and the command line share the operations, whose refusals name fields and no next step. For the command line, these
// functions replace a field by its option or argument, and add a command as the next step.

/** By noun: the command to suggest if what was not found is not the noun's own resource. Default: `NOUN list`. */
const shownBy: Readonly<Record<string, string>> = {
  collection: 'collection show',
  mail: 'mail set-server',
  scim: 'scim show',
};

/** Rewrites refusals to name options and, if a resource was not found, the command that lists such resources. */
export function withRemedies(commands: readonly Command[]): Command[] {
  return commands.map((command) => ({
    ...command,
    run: (input, ports) =>
      command.run(input, ports).catch((error: unknown) => {
        throw remedied(error, command, { positionals: input.positionals, commands });
      }),
  }));
}

interface Typed {
  readonly positionals: readonly string[];
  readonly commands: readonly Command[];
}

function remedied(error: unknown, command: Command, typed: Typed): unknown {
  const { cause } = error instanceof Error ? error : {};
  if (!(cause instanceof AdministrationRefusal)) return error;
  if (error instanceof UsageError) {
    const words = problemOf(cause, command, typed) ?? error.message;
    return new UsageError(words, error.hint, { cause });
  }
  if (!(error instanceof CommandError) || error.hint !== undefined) return error;
  if (cause.code !== 'not_found') return error;
  return new CommandError(error.message, listing(cause, command, typed), { cause });
}

/**
 * The problem of the first field: with the option, `--expires-in-days must be at least 1`, or with the argument as it was typed,
 * `'acme corp' is not a domain`; `undefined` if the field is neither.
 */
function problemOf(
  { fields: [first] }: AdministrationRefusal,
  { options, positionals }: Command,
  typed: Pick<Typed, 'positionals'>,
): string | undefined {
  const field = first?.field.split('.')[0]?.replaceAll(/[A-Z]/g, (one) => `-${one.toLowerCase()}`);
  const option = options.find(({ name }) => name === field || `${name}s` === field);
  if (option) return `--${option.name} ${first?.problem}`;
  const at = positionals.findIndex((usage) => usage.split('|')[0]?.toLowerCase() === field);
  const text = typed.positionals[at];
  return text === undefined ? undefined : `'${text}' ${first?.problem}`;
}

/** The command that shows which resources exist, `NOUN list` or one of `shownBy`, with the arguments that it shares with the failed one. */
function listing(
  { message }: AdministrationRefusal,
  { words, positionals }: Command,
  typed: Typed,
): string | undefined {
  if (message.startsWith('person ')) return 'latchkey-server user list';
  const [noun = ''] = words.split(' ');
  // If the noun's own resource was not found, a command that shows it would fail, too.
  const shows = message.startsWith(`${noun} `) ? undefined : shownBy[noun];
  const list = typed.commands.find((one) => one.words === (shows ?? `${noun} list`));
  if (!list || list.words === words) return undefined;
  const given = list.positionals.map((usage) => {
    const plain = usage.replaceAll(/[[\]]/g, '');
    const at = positionals.findIndex((one) => one.split('/')[0] === plain.split('/')[0]);
    const text = typed.positionals[at];
    if (text === undefined) return usage;
    return shellWord(plain.includes('/') ? text : (text.split('/')[0] ?? ''));
  });
  return ['latchkey-server', list.words, ...given].join(' ');
}
