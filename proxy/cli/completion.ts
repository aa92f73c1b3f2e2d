import { assistants } from '#config/assistants';
import { connectionNames } from '#config/find-entry';
import { UsageError } from '#config/errors';
import { userFiles } from '#config/user-files';
import type { Command } from './command.ts';

/** `latchkey completion SHELL`. */
export const completionCommand: Command = {
  name: 'completion',
  operands: 'bash|zsh',
  summary: 'print a shell completion script',
  about: `Prints a shell script that completes commands, options, assistants and connection names.`,
  flags: {},
  options: [],
  examples: [
    'latchkey completion bash >~/.local/share/bash-completion/completions/latchkey',
    'latchkey completion zsh >~/.zfunc/_latchkey      with fpath+=~/.zfunc in .zshrc',
  ],
  async run({ operands: [shell = ''] }, host, others) {
    if (!isShell(shell))
      throw new UsageError('completion knows only bash and zsh', 'latchkey completion bash');
    const script = completionScript(shell, await others.all());
    for (const line of script.trimEnd().split('\n')) host.print(line);
    return 0;
  },
};

/** `latchkey __names`, which completion scripts run for the names of connections. Files that cannot be read are skipped. */
export const namesCommand: Command = {
  name: '__names',
  hidden: true,
  operands: '',
  summary: '',
  about: '',
  flags: {},
  options: [],
  examples: [],
  async run(_input, host) {
    const names = await connectionNames(userFiles(host), (path) => host.readText(path));
    // An assistant's file may contain any name, so only names that are safe in a shell are printed.
    for (const name of names.filter((one) => /^[\w.-]+$/.test(one))) host.print(name);
    return 0;
  },
};

const shells = ['bash', 'zsh'] as const;
type Shell = (typeof shells)[number];

function isShell(word: string): word is Shell {
  return shells.some((shell) => shell === word);
}

/** A command, and the words that can follow its name. */
type Offer = { name: string; summary: string; words: string[]; names: boolean };

/** A script that makes `shell` complete `latchkey`. It runs `latchkey __names` when it needs the names of connections. */
export function completionScript(shell: Shell, commands: readonly Command[]): string {
  const offers = commands.filter(({ name, hidden }) => !hidden && !name.includes(' ')).map(offerOf);
  switch (shell) {
    case 'bash':
      return bash(offers);
    case 'zsh':
      return zsh(offers);
  }
}

function offerOf({ name, summary, operands, flags, options, subcommands = [] }: Command): Offer {
  const second = subcommands.map((command) => command.name.slice(name.length + 1));
  const words = [{ flags, options }, ...subcommands].flatMap((one) =>
    Object.keys(one.flags).concat(one.options),
  );
  const dashed = [...new Set(words)].map((word) => `--${word}`);
  const assistant = operands.includes('ASSISTANT') ? Object.keys(assistants) : [];
  const own = name === 'completion' ? [...shells] : assistant;
  return {
    name,
    summary,
    words: [...second, ...own, ...dashed],
    names: /\bNAME\b/.test(operands) && name !== 'add',
  };
}

const cases = (offers: readonly Offer[], line: (offer: Offer) => string) =>
  offers.map(line).join('\n');

function bash(offers: readonly Offer[]): string {
  const first = offers.map(({ name }) => name).join(' ');
  return `_latchkey() {
  local word=\${COMP_WORDS[COMP_CWORD]} words='' names=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='${first} --help --version'
    names=yes
  else
    case \${COMP_WORDS[1]} in
${cases(offers, ({ name, words, names }) => `      ${name}) words='${words.join(' ')}'${names ? '; names=yes' : ''} ;;`)}
    esac
  fi
  [ -n "$names" ] && words="$words $(latchkey __names 2>/dev/null)"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _latchkey latchkey
`;
}

function zsh(offers: readonly Offer[]): string {
  return `#compdef latchkey
_latchkey() {
  local -a offered names
  if (( CURRENT == 2 )); then
    offered=(
${cases(offers, ({ name, summary }) => `      '${name}:${summary.replaceAll("'", '’')}'`)}
    )
    _describe command offered
    names=(\${(f)"$(latchkey __names 2>/dev/null)"})
    compadd -a names
    return
  fi
  case $words[2] in
${cases(offers, ({ name, words, names }) => `    ${name}) compadd -- ${words.join(' ')}${names ? '; names=(${(f)"$(latchkey __names 2>/dev/null)"}); compadd -a names' : ''} ;;`)}
  esac
  _files
}
compdef _latchkey latchkey
`;
}
