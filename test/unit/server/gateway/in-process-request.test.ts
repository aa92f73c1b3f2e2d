import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { inProcessRequest } from '#server/gateway/in-process-request';

setFlagsFromString('--expose-gc');
const collectGarbage = z.function({ output: z.undefined() }).parse(runInNewContext('gc'));

test('112: demo server: a listener on the signal of a request is called even if the request was garbage-collected', async () => {
  const call = new AbortController();
  let isOver = false;
  const garbage = new Set<string>();
  const registry = new FinalizationRegistry<string>((name) => garbage.add(name));
  const ask = () => {
    const request = inProcessRequest({ method: 'POST', headers: {}, signal: call.signal });
    registry.register(request, 'request');
    request.signal.addEventListener('abort', () => (isOver = true));
  };
  ask();
  while (!garbage.has('request')) {
    collectGarbage();
    await setImmediate();
  }

  call.abort();

  expect(isOver).toBe(true);
});
