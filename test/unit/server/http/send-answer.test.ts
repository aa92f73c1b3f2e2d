import { createServer, type ServerResponse } from 'node:http';
import { connect } from 'node:net';

import { expect, onTestFinished, test } from 'vitest';

import { sendAnswer } from '#server/http/send-answer';
import { listen } from '#support/loopback';

const body = Buffer.alloc(8 * 1024 * 1024, 'x');

/** A connection that sent two requests at once, and the responses that they wait for. */
async function pipelined() {
  const server = createServer();
  const port = await listen(server);
  onTestFinished(() => void server.close());
  const responses: ServerResponse[] = [];
  const both = new Promise<void>((resolve) => {
    server.on('request', (_, response: ServerResponse) => {
      if (responses.push(response) === 2) resolve();
    });
  });
  const caller = connect(port, '127.0.0.1');
  onTestFinished(() => void caller.destroy());
  caller.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2));
  await both;
  return { caller, responses };
}

test('107: send answer: a body is held until its caller has received it, each in its turn', async () => {
  const { caller, responses } = await pipelined();
  const told: number[] = [];
  const all = Promise.withResolvers<void>();
  responses.forEach((response, i) => {
    const sent = () => {
      if (told.push(i) === 2) all.resolve();
    };
    void sendAnswer(response, { status: 200, headers: {}, body, sent });
  });
  expect(told).toEqual([]);

  caller.resume();
  await all.promise;
  expect(told).toEqual([0, 1]);
});

test('107: send answer: no body is held for a caller that has disconnected, nor the one that waits behind it', async () => {
  const { caller, responses } = await pipelined();
  let told = 0;
  const all = Promise.withResolvers<void>();
  const sent = () => {
    told += 1;
    if (told === 2) all.resolve();
  };
  for (const response of responses) {
    void sendAnswer(response, { status: 200, headers: {}, body, sent });
  }
  expect(told).toBe(0);

  caller.destroy();
  await all.promise;
  expect(told).toBe(2);
});
