import type { Command } from './command.ts';

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
    const { install } = await import('./install.ts');
    await install(input, machine);
    return 0;
  },
};
