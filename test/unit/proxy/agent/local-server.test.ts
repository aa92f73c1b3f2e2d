import { expect, test } from 'vitest';
import { readMessage } from '#mcp/raw-message';
import { answerStream, type LocalServer, narrowedServer } from '#proxy/agent/local-server';

/** The text of a server's event stream as it leaves a narrowed server, which offers only `echo`. */
async function narrowedStream(stream: string): Promise<string> {
  const server: LocalServer = {
    send: () =>
      Promise.resolve({
        status: 200,
        headers: { 'content-type': 'text/event-stream' },
        body: (async function* () {
          yield Buffer.from(stream);
        })(),
      }),
    leave: () => Promise.resolve(),
    reset: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  const answer = await narrowedServer(server, { allow: ['echo'] }, 1_000_000).send({
    method: 'GET',
    headers: {},
    caller: 'dana',
    signal: new AbortController().signal,
  });
  let text = '';
  for await (const chunk of answer.body instanceof Uint8Array ? [answer.body] : answer.body)
    text += String(chunk);
  return text;
}

test('narrowed server: a message in several data lines keeps the other fields of its event', async () => {
  const fields = 'id: 7\nevent: message\nretry: 50\n';

  expect(
    await narrowedStream(`${fields}data: {"jsonrpc":"2.0",\ndata: "id":1,"result":{}}\n\n`),
  ).toBe(`${fields}data: {"jsonrpc":"2.0", "id":1,"result":{}}\n\n`);
});

test('narrowed server: events lose tools that are not allowed, and comments are dropped', async () => {
  const listed = (...names: string[]) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      result: { tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) },
    });

  expect(await narrowedStream(`: still here\n\ndata: ${listed('echo', 'drop')}\n\n`)).toBe(
    `data: ${listed('echo')}\n\n`,
  );
});

test('107: many short messages that a caller does not read count for more than their bytes', async () => {
  const request = readMessage(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}'));
  const left: unknown[] = [];
  const stream = answerStream({ bytes: 0 }, (unread) => left.push(unread));
  let queued = 0;
  while (queued < 1_000_000 && stream.push(request)) queued += 1;

  expect(queued).toBeLessThan(200_000);
  expect(left).toHaveLength(queued);
  await expect(stream.events().next()).rejects.toMatchObject({ code: 'busy' });
});

test('107: child streams: what they buffer for a caller that does not read is limited, and read data no longer counts', async () => {
  const answer = (id: number) =>
    readMessage(
      Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":"${'x'.repeat(33 * 1024 ** 2)}"}`),
    );
  const backlog = { bytes: 0 };
  const [unread, refused, later] = [1, 2, 3].map(() => answerStream(backlog));
  unread?.push(answer(1));
  refused?.push(answer(2));
  const events = unread?.events();
  await events?.next();
  const kept = backlog.bytes;
  later?.push(answer(3));
  later?.close();

  await expect(refused?.events().next()).rejects.toMatchObject({ code: 'busy' });
  expect([kept, backlog.bytes]).toEqual([0, 0]);
});
