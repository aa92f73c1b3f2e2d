import { UsageError } from '#config/usage-error';
import type { Command } from './command.ts';

/** `latchkey completion SHELL`. */
export const completionCommand: Command = {
  name: 'completion',
  operands: 'bash|zsh|fish|powershell',
  arity: [1, 1],
  summary: 'what makes a shell complete these commands',
  about: `Prints a script that completes commands, their options, assistants and the names of connections.`,
  flags: {},
  options: [],
  examples: [
    'latchkey completion bash >~/.local/share/bash-completion/completions/latchkey',
    'latchkey completion zsh >~/.zfunc/_latchkey      with fpath+=~/.zfunc in .zshrc',
    'latchkey completion fish >~/.config/fish/completions/latchkey.fish',
    'latchkey completion powershell >>$PROFILE',
  ],
  async run({ operands: [shell = ''] }, machine) {
    const [{ completionScript, isShell }, { commands }] = await Promise.all([
      import('./completion-script.ts'),
      import('./commands.ts'),
    ]);
    if (!isShell(shell))
      throw new UsageError('which shell?', 'there are bash, zsh, fish and powershell');
    for (const line of completionScript(shell, commands).trimEnd().split('\n')) machine.say(line);
    return 0;
  },
};
