import { expect, test } from 'vitest';

import type { Upstream, UpstreamError } from '#server/gateway/upstream';
import {
  chooseUpstream,
  credentialsUrl,
  describeUpstream,
  listedSettings,
  offeredKinds,
  takesCredentials,
  toUpstreamView,
  upstreamChoiceSchema,
  type UpstreamKind,
  upstreamLocation,
} from '#server/model/upstream-kinds';
import { openUpstream } from '#server/upstreams/open-upstream';
import { someTarget } from '#support/some-admission';

const url = 'https://mcp.example/mcp';
const kinds: readonly (readonly [UpstreamKind, object])[] = [
  [
    { kind: 'http', url, publicOnly: true, accessId: 'upa_1' },
    { opened: [url, true], location: url, view: { url }, text: url, columns: [url, null] },
  ],
  [
    { kind: 'agent', agentId: 'agt_1' },
    {
      opened: ['agt_1', 'crm', 'dana'],
      location: 'agt_1',
      view: { agent: 'berlin' },
      text: 'Agent berlin',
      columns: [null, 'berlin'],
    },
  ],
  [
    { kind: 'demo' },
    { opened: [], location: 'demo', view: {}, text: 'Demo library', columns: [null, null] },
  ],
  [
    { kind: 'stdio' },
    {
      opened: ['acme/crm', 'dana'],
      location: 'stdio',
      view: {},
      text: 'Command on the Latchkey server',
      columns: [null, null],
    },
  ],
];

test.each(kinds)(
  'drivers: an upstream %o is opened, located, shown and listed by its kind',
  (upstream, expected) => {
    const opened: unknown[] = [];
    const unused: Upstream = { send: () => Promise.reject(new Error('not called')) };
    const open = (...settings: readonly unknown[]) => {
      opened.push(...settings);
      return unused;
    };
    const resources = { http: open, agent: open, stdio: open, demo: unused, collection: open };
    openUpstream(someTarget({ name: 'crm', upstream }), 'dana', resources);
    const view = toUpstreamView(upstream, new Map([['agt_1', 'berlin']]));
    const { kind, ...shown } = view;
    const { upstream_url: listedUrl, agent } = listedSettings(view);

    expect(kind).toBe(upstream.kind);
    expect({
      opened,
      location: upstreamLocation(upstream),
      view: shown,
      text: describeUpstream(view),
      columns: [listedUrl, agent],
    }).toEqual(expected);
  },
);

test('drivers: only the kinds that declare credentials take any, for their URL', () => {
  const taken = kinds.map(([upstream]) => {
    const view = toUpstreamView(upstream, new Map());
    return [takesCredentials(upstream), credentialsUrl(upstream), credentialsUrl(view)];
  });
  const none = [false, undefined, undefined];

  expect(taken).toEqual([[true, url, url], none, none, none]);
});

const context = {
  isOperator: false,
  before: undefined,
  findAgent: async (name: string) => (name === 'berlin' ? 'agt_1' : undefined),
  isForbidden: ({ hostname }: URL) => hostname === 'inside.example',
};

test.each([
  [
    { kind: 'http', url },
    { kind: 'http', url, publicOnly: true },
  ],
  [{ kind: 'http', url: 'http://inside.example/' }, { field: 'url' }],
  [
    { kind: 'agent', agent: 'berlin' },
    { kind: 'agent', agentId: 'agt_1' },
  ],
  [{ kind: 'agent', agent: 'paris' }, { field: 'agent' }],
  [{ kind: 'demo' }, { kind: 'demo' }],
])('drivers: the choice %o of an administrator becomes %o', async (choice, expected) => {
  expect(await chooseUpstream(upstreamChoiceSchema.parse(choice), context)).toMatchObject(expected);
});

test('drivers: a URL that the operator enters may lead into a private network', async () => {
  const choice = { kind: 'http', url: 'http://inside.example/' } as const;

  expect(await chooseUpstream(choice, { ...context, isOperator: true })).toEqual(choice);
});

test('drivers: a private URL that the server has already may stay', async () => {
  const choice = { kind: 'http', url: 'http://inside.example/' } as const;

  expect(await chooseUpstream(choice, { ...context, before: choice })).toEqual({
    ...choice,
    publicOnly: true,
  });
});

test('drivers: a stdio upstream and a collection cannot be chosen', () => {
  for (const kind of ['stdio', 'collection'])
    expect(upstreamChoiceSchema.safeParse({ kind, members: [], names: [] }).success).toBe(false);
});

test('drivers: no two settings share a name, as the form of a server has the settings of every kind', () => {
  const others = [
    'name',
    'title',
    'description',
    'instructions',
    'hiddenTools',
    'revision',
    'kind',
  ];
  const names = offeredKinds.flatMap(({ settings }) => settings.map(({ name }) => name));
  const all = [...others, ...names];

  expect(new Set(all).size).toBe(all.length);
});

test('drivers: no two options share a name, and a setting is in the form and in a command', () => {
  const options = offeredKinds.flatMap((kind) => kind.options.map(({ name }) => name));

  expect(offeredKinds.map(({ kind }) => kind)).toEqual([
    'http',
    'agent',
    'demo',
    'stdio',
    'collection',
  ]);
  expect(options).toEqual(['http-url', 'agent', 'demo']);
});

test.each([
  ['of the greatest length', 4096],
  ['that is longer', 4097],
])('107: drivers: an id of a session %s', async (_, length) => {
  const answer = { status: 200, mediaType: '', sessionId: 's'.repeat(length), body: Buffer.of() };
  const demo = {
    send: () => Promise.resolve({ ...answer, challenge: undefined, retryAfterSeconds: undefined }),
  };
  const none = () => expect.fail('another kind');
  const resources = { http: none, agent: none, demo, stdio: none, collection: none };
  const { signal } = new AbortController();
  const sent = openUpstream(someTarget(), 'dana', resources).send({
    method: 'POST',
    headers: {},
    signal,
  });
  const outcome = await sent.then(
    ({ sessionId }) => sessionId?.length,
    ({ code, detail }: UpstreamError) => `${code}: ${detail}`,
  );

  expect(outcome).toBe(
    length === 4096
      ? 4096
      : 'broken: its Mcp-Session-Id has 4097 characters, and 4096 are accepted',
  );
});
