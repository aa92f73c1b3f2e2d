import { describe, expect, test } from 'vitest';
import { watchedUpstream } from '#server/tools/watched-upstream';
import { eventStream, fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { someServer } from '#support/some-admission';

const list = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  result: { tools: [{ name: 'echo' }, { name: 'liar' }, { name: 'closed' }] },
});

function watched(
  answer: ScriptedAnswer,
  rule: 'flag' | 'withhold',
  look = () => Promise.resolve(['liar', 'closed']),
) {
  const looked: string[] = [];
  const failures: unknown[] = [];
  const server = someServer({ changedTools: rule });
  const upstream = watchedUpstream(
    fakeUpstream(() => answer),
    server,
    {
      watch: {
        look(_, message) {
          looked.push(message.toString());
          return look();
        },
      },
      failed: (error) => void failures.push(error),
    },
  );
  const ask = async (text: string) => {
    const body = Buffer.from(text);
    const { signal } = new AbortController();
    const sent = await upstream.send({ method: 'POST', headers: {}, body, signal });
    let got = '';
    if (sent.body instanceof Uint8Array) got = Buffer.from(sent.body).toString();
    else for await (const chunk of sent.body) got += Buffer.from(chunk).toString();
    await new Promise(setImmediate);
    return { ...sent, text: got };
  };
  return { ask, looked, failures };
}

const request = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}"}`;

describe('a list that changed tools are flagged in passes byte for byte, and is looked at', () => {
  test.each([
    ['JSON', 'application/json', list],
    ['an event stream', 'text/event-stream', eventStream(list)],
  ])('%s', async (_, mediaType, text) => {
    const { ask, looked } = watched({ mediaType, text }, 'flag');
    const { text: got } = await ask(request('tools/list'));

    expect(got).toBe(text);
    expect(looked).toEqual([list]);
  });

  test('a look that fails costs nobody the answer', async () => {
    const broken = new Error('full');
    const { ask, failures } = watched({ text: list }, 'flag', () => Promise.reject(broken));

    expect((await ask(request('tools/list'))).text).toBe(list);
    expect(failures).toEqual([broken]);
  });
});

describe('a list that changed tools are withheld from goes on without them', () => {
  test.each([
    ['JSON', 'application/json', list],
    ['an event stream', 'text/event-stream', eventStream(list)],
  ])('%s', async (_, mediaType, text) => {
    const { ask } = watched({ mediaType, text }, 'withhold');
    const { text: got, mediaType: type } = await ask(request('tools/list'));

    expect(JSON.parse(got)).toMatchObject({ result: { tools: [{ name: 'echo' }] } });
    expect(type).toBe('application/json');
  });

  test('what cannot be written down is refused', async () => {
    const { ask } = watched({ text: list }, 'withhold', () => Promise.reject(new Error('full')));

    await expect(ask(request('tools/list'))).rejects.toThrow('full');
  });
});

test('a method that is spelt with escapes is seen, and other methods are left alone', async () => {
  const { ask, looked } = watched({ text: list }, 'withhold');
  const { text } = await ask(request('tools/call'));
  await ask(request('tools\\u002flist'));
  await ask(request('tools\\/list'));

  expect(text).toBe(list);
  expect(looked).toEqual([list, list]);
});
