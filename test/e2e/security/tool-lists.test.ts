import { afterAll, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { acceptsBoth, initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import {
  bothErasAnswer,
  legacyAnswer,
  recordingUpstream,
  type Answer,
} from '#support/upstreams/recording-upstream';

/** Upstreams that speak the legacy era, both eras, and the modern era alone. */
const older = await recordingUpstream();
const both = await recordingUpstream();
const newer = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: older.url });
const at = (name: string) => gateway.endpoint.replace('fixture', name);
const keys: Record<string, string> = { fixture: gateway.key };
for (const [name, { url }] of Object.entries({ both, newer })) {
  await gateway.command('server', 'create', `acme/${name}`, '--http-url', url);
  keys[name] = (await gateway.newKey(`acme/${name}`)).key;
}

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  for (const made of [older, both, newer]) await made[Symbol.asyncDispose]();
});

const modernAnswer: Answer = (request, response) => {
  const isInitialize = request.body.includes('"initialize"');
  if (isInitialize) response.writeHead(400).end();
  else bothErasAnswer(request, response);
};

interface Said {
  readonly status?: number;
  readonly type?: string;
  readonly body: string | Buffer;
}

/** From now on the upstreams answer `tools/list` by this; `ID` in it is the request's id. */
function listBy(said: Said): void {
  for (const [upstream, usual] of [
    [older, legacyAnswer],
    [both, bothErasAnswer],
    [newer, modernAnswer],
  ] as const) {
    upstream.answer = (request, response) => {
      const text = request.body.toString();
      const id = /"id"\s*:\s*("[^"]*"|[-+.\deE]+)/.exec(text)?.[1] ?? 'null';
      if (!text.includes('"tools/list"')) return usual(request, response);
      const { status = 200, type = 'application/json', body } = said;
      const bytes = Buffer.from(body).toString('latin1').replaceAll('ID', id);
      response.writeHead(status, { 'content-type': type }).end(Buffer.from(bytes, 'latin1'));
    };
  }
}

let ruleNow = 'flag';

async function changedToolsAre(rule: 'flag' | 'withhold'): Promise<void> {
  if (rule === ruleNow) return;
  for (const name of Object.keys(keys)) {
    await gateway.command('server', 'update', `acme/${name}`, '--changed-tools', rule);
  }
  ruleNow = rule;
}

const eitherType = { accept: acceptsBoth };
const legacy = { ...eitherType, 'mcp-protocol-version': '2025-11-25' };

/** The tools as every kind of caller asks for them, of every kind of server. */
async function listEverywhere() {
  const answers = new Map<string, Awaited<ReturnType<typeof mcpCall>>>();
  for (const [name, key] of Object.entries(keys)) {
    const opened = await mcpCall(at(name), {
      key,
      headers: eitherType,
      body: initialize('2025-11-25'),
    });
    const sessionId = opened.headers.get('mcp-session-id');
    const session = sessionId === null ? {} : { 'mcp-session-id': sessionId };
    const asked = {
      plain: {},
      legacy: { headers: { ...legacy, ...session } },
      'legacy, events only': { headers: { ...legacy, ...session, accept: 'text/event-stream' } },
      modern: modern('tools/list'),
    };
    for (const [era, call] of Object.entries(asked)) {
      answers.set(`${era} at ${name}`, await mcpCall(at(name), { key, ...call }));
    }
  }
  return answers;
}

const good = '{"name":"echo","description":"Echoes.","inputSchema":{"type":"object"}}';
const evil = '{"name":"echo","description":"EVIL","inputSchema":{"type":"object"}}';
const answer = (members: string) => `{"jsonrpc":"2.0","id":ID,"result":{${members}}}`;
const events = 'text/event-stream';
const inEvent = (message: string) => `event: message\ndata: ${message}\n\n`;

const unreadable: readonly [string, Said][] = [
  ['a member twice', { body: answer(`"tools":[${good}],"tools":[${evil}]`) }],
  [
    'a member twice in a tool',
    { body: answer(`"tools":[${evil.replace('{', '{"description":"",')}]`) },
  ],
  ['4 MiB of blanks', { body: answer(`"tools":[${evil}]`) + ' '.repeat(4 << 20) }],
  [
    'invalid UTF-8',
    { body: Buffer.from(answer(`"tools":[${evil.replace('EVIL', 'EVIL\xff')}]`), 'latin1') },
  ],
  ['data behind it', { body: `${answer(`"tools":[${evil}]`)} {}` }],
  ['a batch', { body: `[${answer(`"tools":[${evil}]`)}]` }],
  ['another case', { body: answer(`"tools":[${good}],"Tools":[${evil}]`) }],
  ['a status that is no success', { status: 404, body: answer(`"tools":[${evil}]`) }],
  [
    'a member twice, in an event',
    { type: events, body: inEvent(answer(`"tools":[${good}],"tools":[${evil}]`)) },
  ],
  [
    'an event before the answer that is one to some',
    {
      type: events,
      body: inEvent(answer(`"tools":[],"tools":[${evil}]`)) + inEvent(answer(`"tools":[${good}]`)),
    },
  ],
  [
    '4 MiB of blanks, in an event',
    { type: events, body: inEvent(answer(`"tools":[${evil}]`) + ' '.repeat(4 << 20)) },
  ],
];

test.for(
  (['flag', 'withhold'] as const).flatMap((rule) =>
    unreadable.map(([name, said]) => [rule, name, said] as const),
  ),
)(
  '95: tool list: where changed tools are to %s, one with %s is not passed on',
  async ([rule, , said]) => {
    await changedToolsAre(rule);
    listBy(said);

    for (const [who, { text, errorCode }] of await listEverywhere()) {
      expect([who, text.includes('EVIL'), typeof errorCode]).toEqual([who, false, 'number']);
    }
  },
);

test('95: tool list: the audit log names the server whose list could not be read, and the caller', async () => {
  const rows = Object.values(await gateway.command('audit', 'list', 'acme'));
  const of = (name: string) =>
    rows.filter((row) => {
      const text = JSON.stringify(row);
      return text.includes('"call.unreadable-tools"') && text.includes(`"acme/${name}"`);
    });

  for (const name of Object.keys(keys)) {
    expect(of(name)[0]).toMatchObject({
      actor: expect.stringMatching(/^key:key_/),
      target: `acme/${name}`,
      outcome: 'refused',
    });
  }
});

test('95: tool list: nothing passes after the answer that was read in its stream', async () => {
  await changedToolsAre('flag');
  const body =
    `: \u2028data: ${answer(`"tools":[${evil}]`)}\n\n` +
    inEvent(answer(`"tools":[${good}]`)) +
    inEvent(answer(`"tools":[${evil}]`)) +
    inEvent(answer(`"tools":[],"tools":[${evil}]`));
  listBy({ type: events, body });

  for (const [who, { status, text }] of await listEverywhere()) {
    expect([who, status, text.includes('EVIL')]).toEqual([who, 200, false]);
    expect(text).toContain('Echoes.');
  }
});

const foreign = `{"jsonrpc":"2.0","id":1,"result":{"tools":[${evil}]}}`;
const twice = foreign.replace('"result":', '"result":{},"result":');
const resources = '{"jsonrpc":"2.0","id":2,"result":{"resources":[]}}';

/** From now on `resources/list` is answered by this, and everything else as usual. */
function resourcesBy(type: string, body: string, status = 200): void {
  for (const [upstream, usual] of [
    [older, legacyAnswer],
    [both, bothErasAnswer],
  ] as const) {
    upstream.answer = (request, response) => {
      const text = request.body.toString();
      if (text.includes('"initialize"')) response.setHeader('mcp-session-id', 'one');
      if (!text.includes('"resources/list"')) return usual(request, response);
      response.writeHead(status, { 'content-type': type }).end(body);
    };
  }
}

/** The resources as callers ask for them who speak the era of the upstream, under the id 2. */
async function resourcesInBothEras() {
  const opened = await mcpCall(at('fixture'), {
    key: gateway.key,
    headers: legacy,
    body: initialize('2025-11-25'),
  });
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
  const body = rpc('resources/list', {}, 2);
  return {
    legacy: await mcpCall(at('fixture'), { key: gateway.key, headers: legacy, body }),
    session: await mcpCall(at('fixture'), {
      key: gateway.key,
      headers: { ...legacy, ...session },
      body,
    }),
    modern: await mcpCall(at('both'), {
      ...(keys['both'] !== undefined && { key: keys['both'] }),
      ...modern('resources/list', {}, 2),
    }),
  };
}

test.for([
  ['a result for it', 'application/json', foreign, 200],
  ['a result for it, twice', 'application/json', twice, 200],
  ['a result for it that is no success', 'application/json', foreign, 404],
  ['an event with a result for it', events, inEvent(foreign), 200],
  ['an event with a result for it, twice', events, inEvent(twice), 200],
] as const)(
  '95: tool list: one that is requested in the meantime cannot be answered in another response: %s',
  async ([, type, body, status]) => {
    resourcesBy(type, body, status);
    for (const [who, { text }] of Object.entries(await resourcesInBothEras())) {
      expect([who, text.includes('EVIL')]).toEqual([who, false]);
    }
  },
);

test('95: response stream: the request’s own answer passes, without results for other requests', async () => {
  const told = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}';
  for (const [type, body] of [
    ['application/json', resources],
    [events, inEvent(told) + inEvent(foreign) + inEvent(resources)],
    [events, inEvent(resources.replace('"id":2', '"id":"2"')) + inEvent(foreign)],
  ] as const) {
    resourcesBy(type, body);
    for (const [who, { status, text }] of Object.entries(await resourcesInBothEras())) {
      expect([who, status, text.includes('EVIL')]).toEqual([who, 200, false]);
      expect(text).toContain('"resources":[]');
    }
  }
});

test('95: response stream: a resumed one passes no result for another request', async () => {
  resourcesBy(events, 'id: theirs\ndata: \n\n');
  const call = { key: gateway.key, headers: legacy, body: initialize('2025-11-25') };
  const opened = await mcpCall(at('fixture'), call);
  const session = {
    ...legacy,
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
  };
  const broken = await mcpCall(at('fixture'), {
    key: gateway.key,
    headers: session,
    body: rpc('resources/list', {}, 2),
  });
  const last = [...broken.text.matchAll(/^id: (a\S+)$/gm)].at(-1)?.[1] ?? '';
  older.answer = (_, response) =>
    response.writeHead(200, { 'content-type': events }).end(inEvent(foreign) + inEvent(resources));

  const resumed = await mcpCall(at('fixture'), {
    key: gateway.key,
    method: 'GET',
    headers: { ...session, accept: events, 'last-event-id': last },
  });

  expect(resumed.text).toContain('"resources":[]');
  expect(resumed.text).not.toContain('EVIL');
});

test('95: hidden tool: no status, stream or spelling reveals it', async () => {
  const secret = evil.replace('echo', 'secret');
  for (const name of Object.keys(keys)) {
    await gateway.command('server', 'hide-tools', `acme/${name}`, '--tool', 'secret');
  }
  await changedToolsAre('flag');
  const list = answer(`"tools":[${good},${secret}]`);
  for (const said of [
    { body: list },
    { status: 404, body: list },
    { status: 400, body: list },
    { type: events, body: inEvent(list) },
    { type: events, body: inEvent(answer(`"tools":[],"tools":[${secret}]`)) + inEvent(list) },
    { body: answer(`"tools":[${good}],"Tools":[${secret}]`) },
  ]) {
    listBy(said);
    for (const [who, { text }] of await listEverywhere()) {
      expect([who, text.includes('EVIL')]).toEqual([who, false]);
    }
  }
});
