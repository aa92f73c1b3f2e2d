import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { allCommands } from '#proxy/cli/commands';
import { declarations } from '#proxy/config/options';
import { commands as serverCommands } from '#server/cli/commands';
import { startOptions } from '#server/config/option';
import { commandPages } from '#scripts/documentation';

const docs = join(import.meta.dirname, '../../../docs');
const proxyCommands = await allCommands();
const pages = await commandPages();

test.for(Object.entries(pages))(
  'docs/%s is what the declarations say; `npm run docs` writes it',
  ([name, text]) => {
    expect(readFileSync(join(docs, name), 'utf8')).toBe(text);
  },
);

test('the page of latchkey has every command with its options, and no hidden one', () => {
  const page = pages['cli-latchkey.md'] ?? '';

  for (const { name, flags, hidden } of proxyCommands) {
    expect(page.includes(`\n### latchkey ${name}\n`)).toBe(!hidden);
    for (const flag of Object.keys(flags)) expect(page).toContain(`| \`--${flag}`);
  }
  for (const { env } of Object.values(declarations)) expect(page).toContain(`\`${env}\``);
});

test('the page of latchkey-server has every command with its options', () => {
  const page = pages['cli-latchkey-server.md'] ?? '';
  const options = [...startOptions, ...serverCommands.flatMap((command) => command.options)];

  for (const { words } of serverCommands)
    expect(page).toContain(`\n### latchkey-server ${words}\n`);
  for (const { name } of options) expect(page).toContain(`| \`--${name}`);
});
