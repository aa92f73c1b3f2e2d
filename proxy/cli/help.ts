import { declarations, optionNames, type OptionName } from '#config/options';
import type { Command, Flag } from './command.ts';
import { allCommands } from './commands.ts';

/** The text of `latchkey --help`, or of one command, such as `latchkey login --help`: one screen. */
export async function help(about?: Command, program = 'latchkey'): Promise<string> {
  const text = about === undefined ? all(await allCommands()) : own(about);
  return program === 'latchkey' ? text : `${text}\nType ${program} in place of latchkey.\n`;
}

function own({ name, operands, about, flags, options, examples }: Command): string {
  const more = Object.entries(flags).map(([flag, declaration]) => ownFlag(flag, declaration));
  return `usage: latchkey ${[name, operands].filter(Boolean).join(' ')} [options]

${about}

${[...more, ...options.map(option)].join('\n')}

examples:
${examples.map((example) => `  ${example}\n`).join('')}`;
}

function ownFlag(name: string, { value, doc, idle }: Flag): string {
  const text = doc || `accepted for mcp-remote compatibility, no effect: ${idle ?? ''}`;
  return `  --${name}${value === undefined ? '' : ` ${value}`}\n      ${text}`;
}

function option(name: OptionName): string {
  const { value, doc, env, ...rest } = declarations[name];
  const fallback = 'fallback' in rest ? ` (${rest.fallback})` : '';
  return `  --${name} ${value}\n      ${doc}${fallback}; ${env}`;
}

function all(commands: readonly Command[]): string {
  // Subcommands are named by two words; their command's own help lists them.
  const shown = commands.filter(({ name, hidden }) => !hidden && !name.includes(' '));
  const usages = shown.map(({ name, operands }) =>
    name === 'connect' ? `[connect] ${operands} [options]` : `${name} ${operands}`,
  );
  const width = Math.max(...usages.map((usage) => usage.length));
  const lines = shown.map(
    ({ summary }, at) => `  latchkey ${(usages[at] ?? '').padEnd(width)}  ${summary}`,
  );
  return `Connects AI assistants to MCP servers with your own sign-in. To begin, run setup with the address of your server.

usage:
${lines.join('\n')}

NAME is a connection, or an entry in the configuration file of an assistant. The options of
mcp-remote work, too. latchkey COMMAND --help explains a command, latchkey connect --help every option:
${listed(optionNames.map((name) => `--${name}`))}

set only in the environment, because they are secrets:
  LATCHKEY_OAUTH                   {"clientId":"…","clientSecret":"…","scopes":["…"]}
  LATCHKEY_CLIENT_SECRET           the client secret alone
  LATCHKEY_API_KEY                 an API key, sent as X-API-Key
  LATCHKEY_PRIVATE_KEY_PASSPHRASE  decrypts oauth.privateKeyFile
  LATCHKEY_CLIENT_KEY_PASSPHRASE   decrypts --client-key-file

examples:
  latchkey setup https://latchkey.example.com
  LATCHKEY_API_KEY=mcp_… latchkey https://latchkey.example.com/mcp/acme/sales
`;
}

/** Words side by side, in lines of up to 96 characters. */
function listed(words: readonly string[]): string {
  const lines: string[] = [];
  for (const word of words) {
    const line = lines.at(-1);
    if (line === undefined || line.length + word.length > 94) lines.push(`  ${word}`);
    else lines[lines.length - 1] = `${line}  ${word}`;
  }
  return lines.join('\n');
}
