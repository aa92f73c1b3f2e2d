import { describe, expect, test } from 'vitest';
import { methodScope } from '#server/gateway/method-scope';

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
