import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { agentStatus, type StatusForm } from '#proxy/agent/agent-status';
import { ConfigurationError, UsageError } from '#proxy/config/errors';
import { words } from '#proxy/errors';
import { OAuthError } from '#proxy/auth/errors';

const root = join(import.meta.dirname, '../..');
const evil = 'a\u001b[2J\u0007\u007f\u009b\u061c\u200f\u202e\u2066\u2028\ufeff\u{e0041}\r\n\tb';
const shown = String.raw`a\u001b[2J\u0007\u007f\u009b\u061c\u200f\u202e\u2066\u2028\ufeff\udb40\udc41\u000d\u000a\u0009b`;
const acts = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

test.each<[StatusForm]>([['json'], ['plain'], ['live']])(
  'an agent’s status (%s) carries no control character of a server or a child',
  (form) => {
    let text = '';
    const tell = agentStatus(
      form,
      (part) => (text += part),
      () => 0,
    );
    tell({ event: 'waiting', problem: evil, remedy: evil, seconds: 1 });
    tell({ event: 'failed', server: evil, problem: evil });
    const bound = { organization: evil, agent: evil, serving: [evil] };
    tell({ event: 'bound', ...bound, unbound: [evil], unconfigured: [evil] });
    const own = String.raw`\u001b\[\d+A\u001b\[0J`;

    const left = text.replaceAll(new RegExp(own, 'g'), '').replaceAll('\n', '');
    expect(left).not.toMatch(acts);
    expect(text).toContain('a\\u001b[2J');
  },
);

test.each([
  ['a server', new OAuthError('metadata', evil, { endpoint: evil })],
  ['an argument', new UsageError(evil, evil)],
])('the error of %s is one line', (_, error) => {
  const { message, hint } = words(error);

  expect(message).toContain(shown);
  expect(`${message}${hint}`).not.toMatch(acts);
});

test('each problem of a configuration is one line', () => {
  const problem = { source: evil, key: evil, problem: evil };

  const { message } = words(new ConfigurationError([problem, problem]));

  expect(message.split('\n')).toHaveLength(2);
  expect(message.replace('\n', '')).not.toMatch(acts);
});

test('nothing but the main programs writes to a terminal', () => {
  const direct = /process\.std(?:out|err)\b|\bconsole\.|\bwriteSync\(/;
  const sources = ['mcp', 'proxy', 'server', 'tray-app'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter(
        ({ name, parentPath }) => name.endsWith('.ts') && !parentPath.includes('node_modules'),
      )
      .map(({ name, parentPath }) => relative(root, join(parentPath, name))),
  );

  const writing = sources.filter((file) => direct.test(readFileSync(join(root, file), 'utf8')));

  expect(writing.toSorted()).toEqual([
    // It makes the lines of the log printable, and writes them to the log file.
    'proxy/log/log.ts',
    'proxy/main.ts',
    'server/main.ts',
    'tray-app/main/main.ts',
  ]);
});
