import { describe, expect, test } from 'vitest';
import {
  allScopes,
  defaultKeyScopes,
  formatScopes,
  isScope,
  ordinaryScopes,
  scopeWords,
} from '#server/credentials/scope';

test('the scopes are the five that the contract names', () => {
  expect(allScopes).toEqual([
    'mcp:tools:read',
    'mcp:tools:execute',
    'mcp:resources:read',
    'mcp:server:read',
    'mcp:server:manage',
  ]);
});

test('the ordinary set uses a server and administers nothing', () => {
  expect(ordinaryScopes).toEqual(['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read']);
});

test('a key may do all but manage the server unless its maker chose otherwise', () => {
  expect(defaultKeyScopes).toEqual([
    'mcp:tools:read',
    'mcp:tools:execute',
    'mcp:resources:read',
    'mcp:server:read',
  ]);
});

describe('a scope parameter is read as words', () => {
  test.each([
    ['separated by spaces', 'a b c', ['a', 'b', 'c']],
    ['separated by commas', 'a,b,c', ['a', 'b', 'c']],
    ['separated by both', ' a, b ,c, ', ['a', 'b', 'c']],
    ['each once', 'a b a', ['a', 'b']],
    ['none in an empty one', '', []],
    ['none in one of separators', ' , ', []],
  ])('%s', (_, text, words) => {
    expect(scopeWords(text)).toEqual(words);
  });
});

test('scopes are told apart by exact spelling', () => {
  const spellings = [
    'mcp:tools:read',
    'MCP:tools:read',
    'mcp:tools',
    'mcp:tools:read ',
    'toString',
  ];

  expect(spellings.filter(isScope)).toEqual(['mcp:tools:read']);
});

test('a response spells scopes once each, in one order, with single spaces', () => {
  expect(formatScopes(['mcp:server:read', 'mcp:tools:read', 'mcp:server:read'])).toBe(
    'mcp:tools:read mcp:server:read',
  );
});
