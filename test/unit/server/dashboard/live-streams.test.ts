import { ServerResponse, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';

import { LiveStreams } from '#server/dashboard/live-streams';
import { stillClock } from '#support/still-clock';

/** Changes that a test makes, and streams whose lines it can read. */
function live() {
  const states = new Map<string, number>();
  let written = 0;
  const failures: unknown[] = [];
  const read = { stateOf: () => Promise.resolve() };
  const streams = new LiveStreams({
    changes: {
      written: () => String(written),
      async stateOf(organization, server) {
        await read.stateOf();
        return String(states.get(`${organization}/${server ?? ''}`) ?? 0);
      },
    },
    failed: (error) => failures.push(error),
    clock: stillClock(),
  });
  const write = (topic?: string) => {
    written += 1;
    if (topic !== undefined) states.set(topic, written);
  };
  const open = async (but: { sessionId?: string; userId?: string; server?: string } = {}) => {
    const lines: string[] = [];
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const end = response.end.bind(response);
    response.write = (chunk: unknown) => Boolean(lines.push(String(chunk)));
    response.end = (chunk?: unknown) => {
      if (typeof chunk === 'string') lines.push(chunk);
      return end();
    };
    const listener = { isAllowed: true, isOpen: false, isTaken: false, lines, response };
    const { sessionId = 's1', userId = 'user_dana', server } = but;
    const isAllowed = async () => listener.isAllowed;
    const topic = { sessionId, userId, organization: 'acme', server, isAllowed };
    listener.isOpen = await streams.open(topic, () => {
      listener.isTaken = true;
      return response;
    });
    lines.length = 0;
    return listener;
  };
  return { streams, write, open, failures, read };
}

test('a stream says so when something of its topic was written, and not what', async () => {
  const { streams, write, open } = live();
  const sales = await open({ server: 'sales' });
  const web = await open({ server: 'web' });

  write('acme/sales');
  await streams.look();

  expect(sales.lines).toEqual(['event: written\ndata:\n\n']);
  expect(web.lines).toEqual([':\n\n']);
  streams.close();
});

test('nothing is asked or said while nothing is written', async () => {
  const { streams, write, open } = live();
  const page = await open();
  write();
  await streams.look();
  page.lines.length = 0;

  await streams.look();

  expect(page.lines).toEqual([]);
  streams.close();
});

test('a stream ends at the next look once its session or membership is over', async () => {
  const { streams, write, open } = live();
  const page = await open();
  page.isAllowed = false;

  write();
  await streams.look();

  expect(page.lines).toEqual(['event: over\ndata:\n\n']);
  expect(streams.count).toBe(0);
});

test('the fifth stream of a session ends its first', async () => {
  const { streams, open } = live();
  const first = await open();
  for (let more = 0; more < 4; more += 1) await open();
  await open({ sessionId: 's2' });

  expect(first.lines).toEqual(['event: full\ndata:\n\n']);
  expect(streams.count).toBe(5);
  streams.close();
});

test('however often somebody signs in, they keep the newest twenty, and nobody else loses one', async () => {
  const { streams, open } = live();
  const other = await open({ userId: 'user_eve', sessionId: 'other' });
  const pages = [];
  for (let place = 0; place < 23; place += 1) pages.push(await open({ sessionId: `s${place}` }));

  expect(streams.count).toBe(21);
  expect(pages.map(({ lines }) => lines.join(''))).toEqual(
    pages.map((_, place) => (place < 3 ? 'event: full\ndata:\n\n' : '')),
  );
  expect(other.lines).toEqual([]);
  streams.close();
});

test('a topic that cannot be read takes no response over, and ends nobody else’s stream', async () => {
  const { streams, open, read } = live();
  const pages = [];
  for (let page = 0; page < 4; page += 1) pages.push(await open());
  read.stateOf = () => Promise.reject(new Error('locked'));

  await expect(open()).rejects.toThrow('locked');
  expect(pages.map(({ lines }) => lines)).toEqual([[], [], [], []]);
  expect(streams.count).toBe(4);
  streams.close();
});

test('a stream that was about to open when the server stopped does not', async () => {
  const { streams, open, read } = live();
  const reading = Promise.withResolvers<void>();
  read.stateOf = () => reading.promise;
  const opening = open();
  streams.close();
  reading.resolve();

  expect(await opening).toMatchObject({ isOpen: false, isTaken: false });
  expect(streams.count).toBe(0);
});
