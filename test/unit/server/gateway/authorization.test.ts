import { describe, expect, test } from 'vitest';

import { type Scope, allScopes } from '#server/model/scopes';
import type { Target } from '#server/model/endpoints';
import { type AccessRules, type ToolCaller, ToolRights } from '#server/model/tool-rights';
import { authorize } from '#server/gateway/authorization';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
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
    ['one that is withheld', 'withheld_tool', { withheld: { tool: new Set(['drop']) }, open: {} }],
    [
      '110: one beyond those of a server that are compared',
      'unknown_tool',
      { withheld: {}, open: { tool: new Set(['query']) } },
    ],
    [
      'one that is withheld of those that are compared',
      'withheld_tool',
      { withheld: { tool: new Set(['drop']) }, open: { tool: new Set(['drop', 'query']) } },
    ],
  ])('a tool whose definition nobody has accepted is not called: %s', (_, code, closed) => {
    const but = { offered: { ...closed, readOnly: new Set<string>() } };
    const callOf = (name: string) => {
      const { envelope, body } = scannedRequest('tools/call', { name });
      return () =>
        authorize(envelope, body, someAdmission({ endpoint: someServer({ target: but }) }));
    };

    expect(callOf('query')).not.toThrow();
    expect(callOf('drop')).toThrow(expect.objectContaining({ code }));
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

  describe('rights per name', () => {
    const sales = new Set(['sales']);
    const rules: AccessRules = {
      others: {},
      named: {
        tool: new Map([['drop', sales]]),
        prompt: new Map([['drop', sales]]),
        resource: new Map([['file:///drop', sales]]),
        template: new Map([['file:///drop/{+x}', sales]]),
      },
    };
    const named = new Set(['drop', 'keep']);
    const open = {
      tool: named,
      prompt: named,
      template: new Set(['file:///drop/{+x}', 'file:///keep/{+x}']),
    };
    const offered = { withheld: {}, open, readOnly: new Set<string>() };
    const may = (
      { envelope, body }: ScannedMessage,
      target: Partial<Target> = { rules, offered },
      caller: ToolCaller = { groups: new Set(['support']), selections: [] },
    ) => {
      const endpoint = someServer({ target });
      const rights = new ToolRights(endpoint.target, caller);
      return authorize(envelope, body, someAdmission({ endpoint, rights }));
    };
    const codeOf = (act: () => unknown) => {
      try {
        act();
      } catch (error) {
        return error instanceof GatewayRefusal ? error.code : error;
      }
      return 'allowed';
    };
    const ref = (type: string, but: object) =>
      scannedRequest('completion/complete', {
        ref: { type, ...but },
        argument: { name: 'a', value: '' },
      });
    const listen = (...resourceSubscriptions: unknown[]) =>
      scannedRequest('subscriptions/listen', { notifications: { resourceSubscriptions } });

    test.each<[string, ScannedMessage, ScannedMessage, string]>([
      [
        'tools/call',
        scannedRequest('tools/call', { name: 'keep' }),
        scannedRequest('tools/call', { name: 'drop' }),
        'closed_tool',
      ],
      [
        'prompts/get',
        scannedRequest('prompts/get', { name: 'keep' }),
        scannedRequest('prompts/get', { name: 'drop' }),
        'closed_prompt',
      ],
      ...['read', 'subscribe', 'unsubscribe', 'directory/read'].map(
        (what): [string, ScannedMessage, ScannedMessage, string] => [
          `resources/${what}`,
          scannedRequest(`resources/${what}`, { uri: 'file:///keep' }),
          scannedRequest(`resources/${what}`, { uri: 'FILE:///drop' }),
          'closed_resource',
        ],
      ),
      [
        'skills/get',
        scannedRequest('skills/get', { uri: 'file:///keep' }),
        scannedRequest('skills/get', { uri: 'file:///drop/a' }),
        'closed_resource',
      ],
      [
        'completion of a prompt',
        ref('ref/prompt', { name: 'keep' }),
        ref('ref/prompt', { name: 'drop' }),
        'closed_prompt',
      ],
      [
        'completion of a template',
        ref('ref/resource', { uri: 'file:///keep/{+x}' }),
        ref('ref/resource', { uri: 'file:///drop/{+x}' }),
        'closed_resource',
      ],
      [
        'subscriptions/listen',
        listen('file:///keep'),
        listen('file:///keep', 'file:///drop'),
        'closed_resource',
      ],
    ])('%s', (_, allowed, closed, code) => {
      expect(codeOf(() => may(allowed))).toBe('allowed');
      expect(codeOf(() => may(closed))).toBe(code);
      expect(codeOf(() => may(closed, {}))).toBe('allowed');
      expect(codeOf(() => may(closed, undefined, { groups: sales, selections: [] }))).toBe(
        'allowed',
      );
    });

    test.each([
      ['a tool', scannedRequest('tools/call', { name: 'Drop' }), 'unknown_tool'],
      ['a prompt', scannedRequest('prompts/get', { name: 'other' }), 'unknown_prompt'],
      ['a prompt to complete', ref('ref/prompt', { name: 'other' }), 'unknown_prompt'],
      ['a template', ref('ref/resource', { uri: 'file:///other/{x}' }), 'unknown_resource'],
    ])('a name on no list is unknown: %s', (_, message, code) => {
      expect(codeOf(() => may(message))).toBe(code);
    });

    test.each([
      ['a template that is withheld', 'template', 'file:///new/{x}', 'closed_resource'],
      ['a prompt that is withheld', 'prompt', 'new', 'closed_prompt'],
      ['a tool that is withheld', 'tool', 'new', 'withheld_tool'],
    ] as const)('%s is closed', (_, kind, name, code) => {
      const message = {
        template: ref('ref/resource', { uri: name }),
        prompt: scannedRequest('prompts/get', { name }),
        tool: scannedRequest('tools/call', { name }),
      }[kind];
      const withheld = { [kind]: new Set([name]) };

      expect(codeOf(() => may(message, { offered: { ...offered, open: {}, withheld } }))).toBe(
        code,
      );
    });

    test('a key that is limited to chosen names gets no other', () => {
      const selection = {
        type: 'chosen' as const,
        tools: ['drop'],
        prompts: [],
        resources: ['file:///keep/{x}'],
      };
      const caller = { selections: [selection] };
      const verdict = (message: ScannedMessage) =>
        codeOf(() => may(message, { rules, offered }, caller));

      expect(verdict(scannedRequest('tools/call', { name: 'drop' }))).toBe('allowed');
      expect(verdict(scannedRequest('tools/call', { name: 'keep' }))).toBe('closed_tool');
      expect(verdict(scannedRequest('resources/read', { uri: 'file:///keep/a' }))).toBe('allowed');
      expect(verdict(scannedRequest('resources/read', { uri: 'file:///keep/a/b' }))).toBe(
        'closed_resource',
      );
    });

    test('what depends on a list that was not read is returned, and nothing of it is decided', () => {
      const unread = { rules };
      const call = scannedRequest('tools/call', { name: 'drop' });
      const template = ref('ref/resource', { uri: 'file:///drop/{+x}' });

      expect(may(call, unread)).toEqual([{ kind: 'tool', name: 'drop' }]);
      expect(may(template, unread)).toEqual([{ kind: 'template', name: 'file:///drop/{+x}' }]);
      expect(may(scannedRequest('resources/read', { uri: 'a:b' }), unread)).toEqual([]);
      expect(codeOf(() => may(call))).toBe('closed_tool');
    });

    test.each([
      ['a completion without a reference', '{}', 'params.ref must be an object'],
      ['a reference that is a list', '{"ref":["drop"]}', 'params.ref must be an object'],
      [
        'a reference of an unknown type',
        '{"ref":{"type":"ref/tool","name":"keep"}}',
        'params.ref.type is unknown',
      ],
      [
        'a name that is a list',
        '{"ref":{"type":"ref/prompt","name":["drop"]}}',
        'params.ref.name must be a string',
      ],
      [
        'a URI that is a number',
        '{"ref":{"type":"ref/resource","uri":1}}',
        'params.ref.uri must be a string',
      ],
      ['a type that is missing', '{"ref":{"name":"keep"}}', 'params.ref.type is unknown'],
      [
        'a URI beside a name',
        '{"ref":{"type":"ref/prompt","name":"keep","uri":"file:///drop/{+x}"}}',
        'params.ref.uri does not belong to ref/prompt',
      ],
      [
        'a name in other case',
        '{"ref":{"type":"ref/prompt","Name":"drop","name":"keep"}}',
        'a member differs from name in case only',
      ],
      [
        'a reference in other case',
        '{"Ref":{"type":"ref/prompt","name":"drop"},"ref":{"type":"ref/prompt","name":"keep"}}',
        'a member differs from ref in case only',
      ],
    ])('a completion that could be read differently is refused: %s', (_, params, detail) => {
      const text = `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":${params}}`;

      expect(() => may(scannedMessage(text))).toThrow(
        expect.objectContaining({ code: 'bad_params', details: { detail } }),
      );
    });

    test('a reference with a name twice is no message', () => {
      const text =
        '{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"drop","name":"keep"}}}';

      expect(() => scannedMessage(text)).toThrow('a member is there twice');
      expect(() => scannedMessage(text.replace(',"name"', ',"n\\u0061me"'))).toThrow(
        'a member is there twice',
      );
    });

    test('a name that is escaped is the same name', () => {
      const text =
        '{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref\\/prompt","n\\u0061me":"dr\\u006fp"}}}';

      expect(codeOf(() => may(scannedMessage(text)))).toBe('closed_prompt');
    });

    test.each([
      ['no array', '"file:///drop"'],
      ['an array in an array', '[["file:///drop"]]'],
      ['an object', '{"0":"file:///drop"}'],
    ])('subscriptions that are %s are refused', (_, uris) => {
      const text = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":${uris}}}}`;

      expect(codeOf(() => may(scannedMessage(text)))).toBe('bad_params');
    });

    test('notifications in other case are refused, whatever the rules', () => {
      const message = scannedRequest('subscriptions/listen', {
        Notifications: { toolsListChanged: true },
      });

      expect(codeOf(() => may(message, {}))).toBe('bad_params');
    });

    test.each([
      ['resources/directory/read', 'uri'],
      ['resources/subscribe', 'uri'],
      ['skills/get', 'uri'],
      ['prompts/other', 'name'],
    ])('%s needs its %s where rules are about it', (method, member) => {
      const message = scannedRequest(method, {});

      expect(codeOf(() => may(message))).toBe('bad_params');
      expect(codeOf(() => may(message, {}))).toBe('allowed');
      expect(codeOf(() => may(scannedRequest(method, { [member]: 'a' })))).not.toBe('bad_params');
    });

    test('lists are not refused', () => {
      const lists = [
        'tools/list',
        'prompts/list',
        'resources/list',
        'resources/templates/list',
        'skills/list',
      ];

      expect(lists.map((method) => codeOf(() => may(scannedRequest(method))))).toEqual(
        lists.map(() => 'allowed'),
      );
    });
  });
});
