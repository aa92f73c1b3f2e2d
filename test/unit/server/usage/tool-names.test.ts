import { expect, test } from 'vitest';

import { ToolNames, otherNames } from '#server/usage/tool-names';

test('a name counts once its server has answered it well', () => {
  const names = new ToolNames();

  expect(names.counted('srv', 'tool', 'query', false)).toBe(otherNames);
  expect(names.counted('srv', 'tool', 'query', true)).toBe('query');
  expect(names.counted('srv', 'tool', 'query', false)).toBe('query');
});

test.each([
  `mcp_${'a'.repeat(36)}`,
  `client_1:secret_${'b'.repeat(36)}`,
  'Bearer abcdefgh12345678',
  'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2ln',
])('a name that holds a secret never counts, however it was answered', (name) => {
  expect(new ToolNames().counted('srv', 'tool', name, true)).toBe(otherNames);
});
