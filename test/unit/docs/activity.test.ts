import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { endWords } from '#server/activity/call-words';
import { findCommand } from '#server/cli/find-command';
import { callRetentionDays } from '#server/model/calls';
import { administrationWithServer } from '#support/administration';

const page = readFileSync(join(import.meta.dirname, '../../../docs/activity.md'), 'utf8');

/** The words of a documented command, without `latchkey-server` and without quotes. */
const wordsOf = (command: string) =>
  [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');

const documented = /latchkey-server ((?:call|organization) \w+ [^`\n]+)/g;
const commands = [...page.matchAll(documented)].map(([, words = '']) => words);

test('docs/activity.md: its table has all outcomes, as pages name them', () => {
  const section = /^## Outcomes\n.*?^## /ms.exec(page)?.[0] ?? '';
  const rows = [...section.matchAll(/^\| `(\w+)` \| ([^|]+) \| /gm)];

  expect(Object.fromEntries(rows.map(([, end, words]) => [end, words]))).toEqual(endWords);
});

test('docs/activity.md: the days of retention are those of the code', () => {
  const { least, most, default: usual } = callRetentionDays;

  expect(page).toContain(`keeps its calls for ${usual} days`);
  expect(page).toContain(`from ${least} to ${most} days`);
});

test('docs/activity.md: every command runs as it is written', async () => {
  await using admin = await administrationWithServer();
  const finite = commands.filter((one) => !/--follow|call (?:show|content)/.test(one));

  for (const one of finite) await admin.run(...wordsOf(one));
  for (const one of commands) expect(findCommand(wordsOf(one)).command.words).toBeTruthy();

  expect(finite.length).toBeGreaterThanOrEqual(10);
});
