import { expect, test } from 'vitest';
import { choiceLines, chosenAssistants } from '#proxy/cli/choose-assistants';

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
