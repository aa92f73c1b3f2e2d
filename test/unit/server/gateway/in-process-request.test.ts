import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { inProcessRequest } from '#server/gateway/in-process-request';

setFlagsFromString('--expose-gc');
const collectGarbage = z.function({ output: z.undefined() }).parse(runInNewContext('gc'));

test('112: demo server: what listens to the signal of a request is told when the request itself is garbage', async () => {
  const call = new AbortController();
  let isOver = false;
  let isGarbage = false;
  const registry = new FinalizationRegistry(() => (isGarbage = true));
  const ask = () => {
    const request = inProcessRequest({ method: 'POST', headers: {}, signal: call.signal });
    registry.register(request, undefined);
    request.signal.addEventListener('abort', () => (isOver = true));
  };
  ask();
  await expect
    .poll(() => {
      collectGarbage();
      return isGarbage;
    })
    .toBe(true);

  call.abort();

  expect(isOver).toBe(true);
});
