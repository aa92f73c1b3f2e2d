import { expect, test } from 'vitest';
import {
  choiceLines,
  choose,
  chooseLaterLine,
  chosenAssistants,
  lastLines,
  otherCommandsLine,
} from '#proxy/cli/choose-assistants';
import { asTyped } from '#proxy/config/typed-program';
import { refusedUrl } from '#proxy/connections/new-connection';

const offered = [
  { id: 'claude-desktop', title: 'Claude Desktop', found: true, starts: [] },
  { id: 'gemini', title: 'Gemini CLI', found: false, starts: [] },
  { id: 'cursor', title: 'Cursor', found: true, starts: ['sales'] },
];

test.each([
  ['', ['claude-desktop', 'cursor']],
  ['  ', ['claude-desktop', 'cursor']],
  ['2', ['gemini']],
  ['3 1', ['cursor', 'claude-desktop']],
  ['1, 3,3', ['claude-desktop', 'cursor']],
  ['ALL', ['claude-desktop', 'gemini', 'cursor']],
  ['none', []],
])('setup: the answer %j chooses %j', (answer, ids) => {
  expect(chosenAssistants(answer, offered)).toEqual(ids);
});

test.each(['0', '4', '-1', '1.5', 'cursor', '1 all', 'none 2', '1e0'])(
  'setup: the answer %j is invalid, so the question is repeated',
  (answer) => {
    expect(chosenAssistants(answer, offered)).toBeUndefined();
  },
);

test('setup: the choice marks the assistants that were found and those that start the connection', () => {
  expect(choiceLines(['sales'], offered)).toEqual([
    'Assistants:',
    '* 1  Claude Desktop',
    '  2  Gemini CLI      not found',
    '* 3  Cursor          already starts sales',
  ]);
});

const again = 'latchkey setup https://latchkey.example.com';
const host = {
  interactive: true,
  warn: () => undefined,
  stop: () => AbortSignal.abort(),
  lines: async function* lines() {
    await new Promise(() => undefined);
    yield '';
  },
};
const connections = { assistants: () => Promise.resolve([]) };

test.each([
  [[], 'cancelled; nothing changed', ''],
  [
    ['crm'],
    'cancelled; crm was added, but to no assistant',
    `run ${again} again to choose assistants`,
  ],
  [
    ['crm', 'library', 'wiki'],
    'cancelled; crm, library and wiki were added, but to no assistant',
    `run ${again} again to choose assistants`,
  ],
])('setup: Ctrl-C at the choice, with %j new', async (added, message, hint) => {
  const names = ['crm', 'library', 'wiki'];
  const choosing = choose({ names, added, again }, { flags: new Map(), connections, host });

  await expect(choosing).rejects.toMatchObject({ message, hint });
});

test('setup: after the answer none, all connections can still be installed', () => {
  const names = ['crm', 'library', 'wiki'];
  const asked = chooseLaterLine({ names, again }, { flags: new Map(), host });
  const flags = new Map([['yes', ['']]]);
  const unasked = chooseLaterLine({ names, again }, { flags, host });

  expect(asked).toBe(`next: run ${again} again to choose assistants`);
  expect(unasked).toBe('next: latchkey install ASSISTANT crm, and the same for library and wiki');
});

test.each([
  ['npx -y "https://latchkey.example.com/download/latchkey-0.1.0.tgz?v=1"'],
  ['npx --no latchkey'],
])('setup: where a person types %s, other commands begin like this as well', (program) => {
  const line = otherCommandsLine({ program }) ?? '';

  expect(line).toBe('other commands: latchkey status');
  expect(asTyped(line, program)).toBe(`other commands: ${program} status`);
  expect(otherCommandsLine({ program: 'latchkey' })).toBeUndefined();
});

test.each([
  ['file', { LATCHKEY_SECRET_STORE: 'file' }, 1],
  ['file', {}, 0],
  ['os', { LATCHKEY_SECRET_STORE: 'os' }, 0],
] as const)(
  'setup: with the store %s and %o, notes about new terminals: %i',
  (store, env, notes) => {
    const here = { program: 'latchkey', env };

    expect(lastLines({ secretStore: store }, here)).toHaveLength(notes);
  },
);

test.each([
  ['127.0.0.1:8787', 'http://127.0.0.1:8787'],
  ['localhost:8787/mcp/demo/library', 'http://localhost:8787/mcp/demo/library'],
  ['latchkey.example.com', 'https://latchkey.example.com'],
  ['http://latchkey.example.com', 'https://latchkey.example.com'],
])('setup: by %s, %s was probably meant', (entered, meant) => {
  expect(refusedUrl(entered).hint).toBe(`did you mean ${meant}?`);
});
