import { describe, expect, test } from 'vitest';
import type { Scope } from '#server/credentials/scope';
import { authorise } from '#server/gateway/authorise';
import { scannedMessage, scannedRequest, type ScannedMessage } from '#support/scanned-message';
import { someAdmission, someServer } from '#support/some-admission';

const allow = ({ envelope, body }: ScannedMessage, scopes: Scope[], hiddenTools: string[] = []) =>
  authorise(envelope, body, someAdmission({ scopes, server: someServer({ hiddenTools }) }));

test('a credential without any scope may still say hello', () => {
  expect(() => allow(scannedRequest('initialize'), [])).not.toThrow();
  expect(() => allow(scannedRequest('ping'), [])).not.toThrow();
});

describe('a method is refused without its scope, and allowed with it alone', () => {
  test.each<[string, Scope]>([
    ['tools/list', 'mcp:tools:read'],
    ['tools/call', 'mcp:tools:execute'],
    ['tasks/get', 'mcp:tools:execute'],
    ['resources/read', 'mcp:resources:read'],
    ['prompts/get', 'mcp:resources:read'],
  ])('%s: %s', (method, scope) => {
    expect(() => allow(scannedRequest(method), [])).toThrow(
      expect.objectContaining({
        code: 'insufficient_scope',
        details: { scopes: [scope], detail: scope },
      }),
    );
    expect(() => allow(scannedRequest(method), [scope])).not.toThrow();
  });
});

test('a refusal names what was granted and what is needed together, in order', () => {
  expect(() =>
    allow(scannedRequest('tools/call'), ['mcp:resources:read', 'mcp:tools:read']),
  ).toThrow(
    expect.objectContaining({
      code: 'insufficient_scope',
      details: {
        scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
        detail: 'mcp:tools:execute',
      },
    }),
  );
});

test('a notification needs what its method needs, like a request', () => {
  const message = scannedMessage({ jsonrpc: '2.0', method: 'tools/call' });

  expect(() => allow(message, [])).toThrow(expect.objectContaining({ code: 'insufficient_scope' }));
});

test('a method that nobody knows is refused with every scope there is', () => {
  expect(() =>
    allow(scannedRequest('server/manage'), ['mcp:server:manage', 'mcp:server:read']),
  ).toThrow(expect.objectContaining({ code: 'unknown_method' }));
});

describe('a hidden tool', () => {
  const scopes: Scope[] = ['mcp:tools:execute'];
  test('is unknown to who calls it, however its name is escaped', () => {
    const escaped =
      '{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"dr\\u006fp"}}';
    const unknown = expect.objectContaining({ code: 'unknown_tool' });

    expect(() => allow(scannedRequest('tools/call', { name: 'drop' }), scopes, ['drop'])).toThrow(
      unknown,
    );
    expect(() => allow(scannedMessage(escaped), scopes, ['drop'])).toThrow(unknown);
  });

  test('hides no other, and no prompt of its name', () => {
    expect(() =>
      allow(scannedRequest('tools/call', { name: 'Drop' }), scopes, ['drop']),
    ).not.toThrow();
    expect(() =>
      allow(scannedRequest('prompts/get', { name: 'drop' }), ['mcp:resources:read'], ['drop']),
    ).not.toThrow();
  });
});

describe('a subscription needs the scope of every kind it listens to', () => {
  const listen = (notifications: unknown) =>
    scannedRequest('subscriptions/listen', { notifications });
  test.each<[string, Scope]>([
    ['toolsListChanged', 'mcp:tools:read'],
    ['promptsListChanged', 'mcp:resources:read'],
    ['resourcesListChanged', 'mcp:resources:read'],
    ['resourceSubscriptions', 'mcp:resources:read'],
  ])('%s: %s', (kind, scope) => {
    expect(() => allow(listen({ [kind]: true }), ['mcp:tools:execute'])).toThrow(
      expect.objectContaining({ code: 'insufficient_scope' }),
    );
    expect(() => allow(listen({ [kind]: true }), [scope])).not.toThrow();
  });

  test('two kinds need both', () => {
    expect(() =>
      allow(listen({ toolsListChanged: true, promptsListChanged: true }), ['mcp:tools:read']),
    ).toThrow(expect.objectContaining({ code: 'insufficient_scope' }));
  });

  test('none needs none', () => {
    expect(() => allow(listen({}), [])).not.toThrow();
    expect(() => allow(scannedRequest('subscriptions/listen'), [])).not.toThrow();
  });

  test.each([
    ['an unknown kind', { everything: true }],
    ['a kind that objects have by birth', { constructor: true }],
    ['a list of kinds', ['toolsListChanged']],
    ['a word', 'toolsListChanged'],
    ['null', null],
  ])('%s is refused', (_, notifications) => {
    expect(() => allow(listen(notifications), ['mcp:tools:read', 'mcp:resources:read'])).toThrow(
      expect.objectContaining({ code: 'bad_params' }),
    );
  });

  test('params that are a list are refused', () => {
    const message = '{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":[]}';

    expect(() => allow(scannedMessage(message), ['mcp:tools:read'])).toThrow(
      expect.objectContaining({ code: 'bad_params' }),
    );
  });
});
