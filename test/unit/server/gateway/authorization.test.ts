import { describe, expect, test } from 'vitest';

import { type Scope, allScopes } from '#server/model/scopes';
import { authorize } from '#server/gateway/authorization';
import { type ScannedMessage, scannedMessage, scannedRequest } from '#support/scanned-message';
import { someAdmission, someServer } from '#support/some-admission';

describe('authorize', () => {
  const allow = ({ envelope, body }: ScannedMessage, scopes: Scope[], hiddenTools: string[] = []) =>
    authorize(
      envelope,
      body,
      someAdmission({ scopes, endpoint: someServer({ target: { hiddenTools } }) }),
    );

  test.each([
    ['one that is withheld', { withheld: { tool: new Set(['drop']) }, open: {} }],
    [
      '110: one beyond those of a server that are compared',
      { withheld: {}, open: { tool: new Set(['query']) } },
    ],
    [
      'one that is withheld of those that are compared',
      { withheld: { tool: new Set(['drop']) }, open: { tool: new Set(['drop', 'query']) } },
    ],
  ])('a tool whose definition nobody has accepted is not called: %s', (_, closed) => {
    const but = { offered: { ...closed, readOnly: new Set<string>() } };
    const callOf = (name: string) => {
      const { envelope, body } = scannedRequest('tools/call', { name });
      return () =>
        authorize(envelope, body, someAdmission({ endpoint: someServer({ target: but }) }));
    };

    expect(callOf('query')).not.toThrow();
    expect(callOf('drop')).toThrow(expect.objectContaining({ code: 'withheld_tool' }));
  });

  test('a credential without any scope may still send the handshake', () => {
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
      const asked = scannedRequest(method, { name: 'a', uri: 'file:///a', taskId: 'a' });

      expect(() => allow(asked, [])).toThrow(
        expect.objectContaining({
          code: 'insufficient_scope',
          details: { scopes: [scope], detail: scope },
        }),
      );
      expect(() => allow(asked, [scope])).not.toThrow();
    });
  });

  test('a refusal names the granted and the required scopes together, in order', () => {
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

  test('a notification needs the same scope as its method in a request', () => {
    const message = scannedMessage({ jsonrpc: '2.0', method: 'tools/call' });

    expect(() => allow(message, [])).toThrow(
      expect.objectContaining({ code: 'insufficient_scope' }),
    );
  });

  test('a request whose method is that of a notification is refused as an unknown method', () => {
    for (const method of ['notifications/cancelled', 'notifications/x', 'notifications/']) {
      expect(() => allow(scannedRequest(method), [...allScopes])).toThrow(
        expect.objectContaining({ code: 'unknown_method' }),
      );
    }
  });

  test('a request without an id is refused with every scope there is, and a notification is not', () => {
    const of = (method: string) => scannedMessage({ jsonrpc: '2.0', method });

    for (const method of ['tools/call', 'tools/list', 'initialize', 'tasks/cancel', 'ping']) {
      expect(() => allow(of(method), [...allScopes])).toThrow(
        expect.objectContaining({ code: 'not_a_message' }),
      );
    }
    expect(() => allow(of('notifications/cancelled'), [])).not.toThrow();
  });

  describe('a message that an upstream could read differently from the check is refused', () => {
    test.each([
      ['params that are a list', 'tools/call', '["drop"]', 'params must be an object'],
      ['params that are a string', 'ping', '"drop"', 'params must be an object'],
      ['params that are null', 'ping', 'null', 'params must be an object'],
      ['a name that is a list', 'tools/call', '{"name":["drop"]}', 'params.name must be a string'],
      [
        'a name that is an object',
        'tools/call',
        '{"name":{"toString":"drop"}}',
        'params.name must be a string',
      ],
      ['a URI that is a number', 'resources/read', '{"uri":1}', 'params.uri must be a string'],
      ['a task id that is null', 'tasks/get', '{"taskId":null}', 'params.taskId must be a string'],
      [
        'a state that is a list',
        'tools/call',
        '{"name":"a","requestState":[]}',
        'params.requestState must be a string',
      ],
      ['a cursor that is true', 'tools/list', '{"cursor":true}', 'params.cursor must be a string'],
      ['a call of no tool', 'tools/call', '{}', 'params.name is missing'],
      ['a task id of no task', 'tasks/cancel', '{}', 'params.taskId is missing'],
    ])('%s', (_, method, params, detail) => {
      const text = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;

      expect(() => allow(scannedMessage(text), [...allScopes], ['drop'])).toThrow(
        expect.objectContaining({ code: 'bad_params', details: { detail } }),
      );
    });
  });

  test('an unknown method is refused even with all scopes', () => {
    expect(() =>
      allow(scannedRequest('server/manage'), ['mcp:server:manage', 'mcp:server:read']),
    ).toThrow(expect.objectContaining({ code: 'unknown_method' }));
  });

  describe('a hidden tool', () => {
    const scopes: Scope[] = ['mcp:tools:execute'];
    test('is unknown to its caller, however its name is escaped', () => {
      const escaped =
        '{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"dr\\u006fp"}}';
      const unknown = expect.objectContaining({ code: 'hidden_tool' });

      expect(() => allow(scannedRequest('tools/call', { name: 'drop' }), scopes, ['drop'])).toThrow(
        unknown,
      );
      expect(() => allow(scannedMessage(escaped), scopes, ['drop'])).toThrow(unknown);
    });

    test('hides no other tool, and no prompt of the same name', () => {
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

    test('two kinds need the scopes of both', () => {
      expect(() =>
        allow(listen({ toolsListChanged: true, promptsListChanged: true }), ['mcp:tools:read']),
      ).toThrow(expect.objectContaining({ code: 'insufficient_scope' }));
    });

    test('no kind needs no scope', () => {
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
});
