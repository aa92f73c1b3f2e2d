import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import { type ClusterNode, nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { natsUrl } from '#support/requirements';
import { suite } from '#support/suite';
import { type SessionUpstream, sessionUpstream } from '#support/upstreams/session-upstream';
import { talkingUpstream, type TalkingUpstream } from '#support/upstreams/talking-upstream';
import { wireProxy, type WireProxy } from '#support/wire-proxy';

const madeKey = z.object({ id: z.string(), key: z.string() });
const version = '2025-06-18';

await suite(['postgres', 'nats'], 'sessions of another node', () => {
  const stack = new AsyncDisposableStack();
  let upstream: TalkingUpstream;
  let asking: SessionUpstream;
  let wire: WireProxy;
  let cluster: NodeCluster;
  let key: string;
  let askingKey: string;

  beforeAll(async () => {
    upstream = stack.use(await talkingUpstream());
    asking = stack.use(await sessionUpstream());
    const { hostname, port } = new URL(natsUrl());
    wire = stack.use(await wireProxy({ host: hostname, port: Number(port || 4222) }));
    const args = ['--nats-url', wire.through(natsUrl())];
    cluster = stack.use(await nodeCluster({ size: 2, args }));
    await cluster.command(['organization', 'create', 'acme']);
    await cluster.command(['server', 'create', 'acme/talking', '--http-url', upstream.url]);
    await cluster.command(['server', 'create', 'acme/asking', '--http-url', asking.url]);
    key = (await createKey('everyone')).key;
    askingKey = (await createKey('asked', 'asking')).key;
  });
  afterAll(() => stack.disposeAsync());

  const createKey = async (name: string, server = 'talking') => {
    const words = ['key', 'create', `acme/${server}`, '--name', name, '--json'];
    const text = await cluster.command(words);
    return madeKey.parse(JSON.parse(text));
  };
  const endpoint = () => `${cluster.base}/mcp/acme/talking`;
  const nodeAt = (index: number): ClusterNode => {
    const node = cluster.nodes[index];
    if (!node) throw new Error('no such node');
    return node;
  };

  /** Opens a session at `opener`. Each of its calls goes to the node that the call names. */
  async function session(opener: ClusterNode, { key: own = key } = {}) {
    const accept = 'application/json, text/event-stream';
    const opened = await mcpCall(endpoint(), {
      key: own,
      headers: { accept, 'x-test-node': opener.name },
      body: initialize(version),
    });
    const id = opened.headers.get('mcp-session-id') ?? '';
    const headers = (node: ClusterNode) => ({
      accept,
      'mcp-protocol-version': version,
      'mcp-session-id': id,
      'x-test-node': node.name,
    });
    return {
      id,
      call: (
        node: ClusterNode,
        { body = rpc('tools/list'), with: other = own, within = {} } = {},
      ) => mcpCall(endpoint(), { key: other, headers: { ...headers(node), ...within }, body }),
      end: (node: ClusterNode) =>
        mcpCall(endpoint(), { key: own, headers: headers(node), method: 'DELETE' }),
      listen: async (node: ClusterNode, lastEventId?: string) => {
        const gone = new AbortController();
        onTestFinished(() => gone.abort());
        const answer = await fetch(endpoint(), {
          headers: {
            ...headers(node),
            ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
            'x-api-key': own,
          },
          signal: gone.signal,
        });
        let text = '';
        const ended = (async () => {
          for await (const chunk of answer.body ?? []) text += Buffer.from(chunk).toString();
        })().catch(() => undefined);
        return { status: answer.status, text: () => text, ended };
      },
    };
  }

  test('a call in the session of another node is answered there', async () => {
    const { id, call } = await session(nodeAt(0));

    const answer = await call(nodeAt(1));

    expect(id).toMatch(/^[0-9A-Za-z]{16}\.[\w-]{32}$/);
    expect(answer).toMatchObject({ status: 200, text: expect.stringContaining('"tools":[]') });
    expect(answer.headers.get('content-type')).toBe('application/json');
  });

  test('a notification in the session of another node is accepted', async () => {
    const { call } = await session(nodeAt(0));

    const answer = await call(nodeAt(1), { body: '{"jsonrpc":"2.0","method":"notifications/x"}' });

    expect(answer).toMatchObject({ status: 202, text: '' });
  });

  test('many concurrent calls in the session of another node are all answered', async () => {
    const { call } = await session(nodeAt(1));

    const answers = await Promise.all(Array.from({ length: 200 }, () => call(nodeAt(0))));

    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  test('a stream at another node delivers what the upstream sends', async () => {
    const { listen } = await session(nodeAt(0));
    const stream = await listen(nodeAt(1));
    await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);

    upstream.say('across nodes');

    await vi.waitFor(() => expect(stream.text()).toContain('across nodes'), patient);
    upstream.end();
    await stream.ended;
  });

  test('a stream is taken over at another node before the loss of its connection is noticed', async () => {
    const { listen } = await session(nodeAt(0));
    const first = await listen(nodeAt(0));
    await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
    upstream.say('first');
    await vi.waitFor(() => expect(first.text()).toContain('first'), patient);
    upstream.end();
    await first.ended;
    const lastEventId = /^id: (.+)$/m.exec(first.text())?.[1] ?? '';
    // Neither side ends this stream's connection, as when a cable was pulled.
    await listen(nodeAt(1), lastEventId);
    await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
    const asked = upstream.asked();
    upstream.say('meanwhile');

    const again = await listen(nodeAt(0), lastEventId);
    await vi.waitFor(() => expect(again.text()).toContain('meanwhile'), patient);
    upstream.say('now');

    await vi.waitFor(() => expect(again.text()).toMatch(/meanwhile.*now/s), patient);
    expect(upstream.asked()).toBe(asked);
    upstream.end();
    await again.ended;
  });

  test('a session is ended at another node', async () => {
    const { call, end } = await session(nodeAt(0));

    expect((await end(nodeAt(1))).status).toBe(204);

    expect(await call(nodeAt(1))).toMatchObject({ status: 404, errorCode: -32001 });
    expect(await call(nodeAt(0))).toMatchObject({ status: 404, errorCode: -32001 });
  });

  test('the session of another caller is not found through another node', async () => {
    const { call } = await session(nodeAt(0));
    const stranger = await createKey('stranger');

    const answer = await call(nodeAt(1), { with: stranger.key });

    expect(answer).toMatchObject({ status: 404, errorCode: -32001 });
  });

  test('a revoked key is refused, and its stream at another node ends', async () => {
    const made = await createKey('short');
    const { call, listen } = await session(nodeAt(0), made);
    const stream = await listen(nodeAt(1));

    await cluster.command(['key', 'revoke', made.id]);

    expect((await call(nodeAt(1))).status).toBe(401);
    await stream.ended;
  });

  /** A call of the modern era whose upstream, of the older one, asks the caller's model. */
  const ask = (node: ClusterNode, more: object = {}, { as = askingKey, within = {} } = {}) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
    };
    const { headers } = modern('tools/call', { name: 'ask' });
    return mcpCall(`${cluster.base}/mcp/acme/asking`, {
      key: as,
      headers: { ...headers, 'x-test-node': node.name, ...within },
      body: rpc('tools/call', { name: 'ask', arguments: {}, ...more, _meta }),
    });
  };
  const stateOf = ({ text }: { text: string }) => /"requestState":"([^"]+)"/.exec(text)?.[1] ?? '';
  const once = { within: { 'x-test-once': '1' } };
  const response = {
    input: { model: 'm', role: 'assistant', content: { type: 'text', text: 'because' } },
  };

  test('a question is answered at another node, once and by its own caller only', async () => {
    const stranger = await createKey('other', 'asking');
    const asked = await ask(nodeAt(0));
    const answer = { requestState: stateOf(asked), inputResponses: response };

    const stolen = await ask(nodeAt(1), answer, { as: stranger.key });
    const answered = await ask(nodeAt(1), answer);
    const again = [await ask(nodeAt(1), answer), await ask(nodeAt(0), answer)];

    expect(asked.text).toContain('"resultType":"input_required"');
    expect(stolen).toMatchObject({ status: 400, errorCode: -32602 });
    expect(answered).toMatchObject({ status: 200, text: expect.stringContaining('because') });
    for (const refused of again) expect(refused).toMatchObject({ status: 400, errorCode: -32602 });
  });

  test('106: passed on once: a call whose session names one node and whose state names the other ends at the second one', async () => {
    const { id } = await session(nodeAt(1));
    const requestState = stateOf(await ask(nodeAt(0)));
    const answer = { requestState, inputResponses: response };

    const ended = await ask(nodeAt(0), answer, { within: { 'mcp-session-id': id } });

    expect(ended).toMatchObject({ status: 400, errorCode: -32602 });
    expect(await ask(nodeAt(0), answer)).toMatchObject({ status: 200 });
  });

  test('a question whose node has ended must be repeated', async () => {
    const third = await cluster.add();
    const asked = await ask(third);
    third.program.kill('SIGKILL');
    await third.program.exited;

    const answer = { requestState: stateOf(asked), inputResponses: response };

    await vi.waitFor(
      async () =>
        expect(await ask(nodeAt(0), answer)).toMatchObject({ status: 400, errorCode: -32602 }),
      patient,
    );
    expect((await ask(nodeAt(0))).text).toContain('"resultType":"input_required"');
  });

  test('without NATS: 503 for another node’s session, own sessions continue, and all do after its return', async () => {
    const { call } = await session(nodeAt(0));
    expect((await call(nodeAt(1))).status).toBe(200);

    await wire.cut();
    const away = await vi.waitFor(async () => {
      const answer = await call(nodeAt(1), once);
      expect(answer.status).toBe(503);
      return answer;
    }, patient);
    const own = await call(nodeAt(0));
    await wire.mend();

    expect(away.headers.get('retry-after')).toBe('1');
    expect(own.status).toBe(200);
    await vi.waitFor(async () => expect((await call(nodeAt(1))).status).toBe(200), patient);
  });

  test('a node that stops answering during a call: the outcome is unknown, and later calls work', async () => {
    const { call } = await session(nodeAt(0));
    expect((await call(nodeAt(1))).status).toBe(200);

    nodeAt(0).program.kill('SIGSTOP');
    const lost = await call(nodeAt(1), once);
    const away = await call(nodeAt(1), once);
    nodeAt(0).program.kill('SIGCONT');

    expect(lost).toMatchObject({ status: 502, text: expect.stringContaining('"unknown"') });
    expect(lost.headers.get('retry-after')).toBeNull();
    expect(away).toMatchObject({ status: 503 });
    expect(away.headers.get('retry-after')).toBe('1');
    await vi.waitFor(async () => expect((await call(nodeAt(1))).status).toBe(200), patient);
  });

  test('when its node is killed: a session is not found, and a new one works', async () => {
    const third = await cluster.add();
    const { call } = await session(third);
    await vi.waitFor(async () => expect((await call(nodeAt(0))).status).toBe(200), patient);

    third.program.kill('SIGKILL');
    await third.program.exited;

    await vi.waitFor(
      async () => expect(await call(nodeAt(0))).toMatchObject({ status: 404, errorCode: -32001 }),
      patient,
    );
    const again = await session(nodeAt(0));
    expect((await again.call(nodeAt(1))).status).toBe(200);
  });
});
