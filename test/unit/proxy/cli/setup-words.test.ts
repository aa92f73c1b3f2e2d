import { expect, test } from 'vitest';
import { setupCommandFor } from '#proxy/cli/choose-assistants';
import { keyRemedy } from '#proxy/cli/setup-words';

test('a URL with what a shell acts on is one word of the commands that setup names', () => {
  const url = `https://latchkey.example.com/mcp/acme/sales?a=1&b='$(id)'`;
  const command = String.raw`latchkey setup 'https://latchkey.example.com/mcp/acme/sales?a=1&b='\''$(id)'\'''`;
  const again = setupCommandFor(url, new Map([['name', ['work']]]));

  expect(again).toBe(`${command} --name work`);
  expect(keyRemedy({ name: 'work', url }, 'missing', again)).toBe(
    `to sign in instead, run latchkey remove work, then ${again} again; to keep using a key, run ${command}`,
  );
});

test('a usual URL is not quoted', () => {
  const again = setupCommandFor('https://latchkey.example.com/mcp/acme/sales', new Map());

  expect(again).toBe('latchkey setup https://latchkey.example.com/mcp/acme/sales');
});
