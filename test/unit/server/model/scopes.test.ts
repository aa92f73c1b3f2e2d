import { describe, expect, test } from 'vitest';

import {
  allScopes,
  defaultKeyScopes,
  formatScopes,
  isScope,
  methodScope,
  ordinaryScopes,
  scopeWords,
} from '#server/model/scopes';
import { requestedScopes } from '#server/oauth/permitted-scopes';

test('the scopes are the five of the contract', () => {
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

test('a key may do all but manage the server unless its creator chose otherwise', () => {
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

test('scopes differ by exact spelling', () => {
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

const allowed = ['mcp:tools:read', 'mcp:tools:execute'] as const;

describe('a request is about', () => {
  test.each([
    ['all that is allowed when it names no scope', undefined, allowed],
    ['all that is allowed when its scope is empty', '', allowed],
    ['all that is allowed when its scope is separators', ' , ', allowed],
    ['the scope that it names', 'mcp:tools:read', ['mcp:tools:read']],
    ['scopes separated by spaces', 'mcp:tools:execute mcp:tools:read', allowed.toReversed()],
    ['scopes separated by commas', 'mcp:tools:read,mcp:tools:execute', allowed],
    ['a scope named twice once', 'mcp:tools:read mcp:tools:read', ['mcp:tools:read']],
  ])('%s', (_, scope, scopes) => {
    expect(requestedScopes(scope, allowed)).toEqual(scopes);
  });
});

describe('a request is invalid_scope, and not narrowed, when it names', () => {
  test.each([
    ['a scope the client may not have', 'mcp:tools:read mcp:server:manage'],
    ['a scope that does not exist', 'mcp:tools:read mcp:everything'],
    ['a scope in another case', 'MCP:tools:read'],
    ['a word of an object', 'constructor'],
  ])('%s', (_, scope) => {
    expect(() => requestedScopes(scope, allowed)).toThrow(
      expect.objectContaining({
        code: 'invalid_scope',
        message: 'this client can request only: mcp:tools:read mcp:tools:execute',
      }),
    );
  });
});

describe('the scope of a method', () => {
  describe('a method needs', () => {
    test.each([
      ['any', 'initialize'],
      ['any', 'ping'],
      ['any', 'server/discover'],
      ['any', 'notifications/initialized'],
      ['any', 'notifications/cancelled'],
      ['any', 'logging/setLevel'],
      ['any', 'subscriptions/listen'],
      ['mcp:tools:read', 'tools/list'],
      ['mcp:tools:execute', 'tools/call'],
      ['mcp:tools:execute', 'tasks/get'],
      ['mcp:tools:execute', 'tasks/cancel'],
      ['mcp:resources:read', 'resources/list'],
      ['mcp:resources:read', 'resources/templates/list'],
      ['mcp:resources:read', 'resources/read'],
      ['mcp:resources:read', 'resources/subscribe'],
      ['mcp:resources:read', 'prompts/list'],
      ['mcp:resources:read', 'prompts/get'],
      ['mcp:resources:read', 'completion/complete'],
      ['mcp:resources:read', 'skills/list'],
    ])('%s: %s', (scope, method) => {
      expect(methodScope(method)).toBe(scope);
    });
  });

  describe('a method is unknown, and never forwarded', () => {
    test.each([
      '',
      'tools',
      'tools/',
      'tools/delete',
      'tasks/list',
      'Tools/list',
      'tools/list ',
      'server/manage',
      'logging/other',
      'completion/other',
      'subscriptions/other',
      'resources',
      'xresources/read',
      'sampling/createMessage',
      'elicitation/create',
      'roots/list',
      'rpc.discover',
      'constructor',
      '__proto__',
      'toString',
    ])('%j', (method) => {
      expect(methodScope(method)).toBeUndefined();
    });
  });
});
