import { describe, expect, test } from 'vitest';
import { requestedScopes } from '#server/oauth/requested-scopes';

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
        message: 'this client may ask for: mcp:tools:read mcp:tools:execute',
      }),
    );
  });
});
