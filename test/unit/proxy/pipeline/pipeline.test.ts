import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readOptions } from '#proxy/config/options';
import { jsonLinesLog } from '#proxy/log/log';
import { pipelineSteps } from '#proxy/pipeline/pipeline';
import { compose, type Step } from '#proxy/pipeline/step';
import { staticCredential } from '#proxy/transport/credential';
import { httpClient } from '#proxy/transport/http-client';
import { fakeClock } from '#support/fake-clock';
import { asMessage, listener, scriptedUpstream } from '#support/scripted-upstream';

const url = 'https://acme.example/mcp';
const signal = new AbortController().signal;

test('pipeline: a message passes the steps in the documented order', () => {
  const http = httpClient(() => ({ env: {} }));
  const options = readOptions({ 'secret-store': 'memory', 'state-dir': '/nowhere' }, {});
  const { steps } = pipelineSteps(
    { name: 'acme', url, source: 'test', credentials: { kind: 'api_key', apiKeySecret: 'key' } },
    options,
    {
      host: { platform: 'linux', home: '/home/dana', env: {}, clock: fakeClock(), http },
      log: jsonLinesLog('error', () => undefined),
      credential: staticCredential({}),
      account: '',
      troubleOf: () => undefined,
      explain: String,
      status: { changed: () => undefined },
      observe: () => ({ name: 'status', on: () => ({}) }),
    },
  );

  const order = steps.map(({ name }) => name);
  expect(order).toEqual([
    'status',
    'tool filter',
    'offline cache',
    'idle timeout',
    'detection',
    'tool headers',
  ]);
  const documentation = join(import.meta.dirname, '../../../../ARCHITECTURE.md');
  expect(readFileSync(documentation, 'utf8')).toContain(order.join(' → '));
});

test('pipeline: a message passes the steps in order, and its answer in the opposite order', async () => {
  const seen: string[] = [];
  const step = (name: string): Step => ({
    name,
    on: (next) => ({
      send(message, deliver, until) {
        seen.push(`${name} sends`);
        const take = async (answer: typeof message) => {
          seen.push(`${name} delivers`);
          await deliver(answer);
        };
        return next.send(message, take, until);
      },
    }),
  });
  const server = scriptedUpstream(({ id }) => [{ id, result: {} }]);
  const upstream = compose(
    [step('first'), { name: 'passing', on: () => ({}) }, step('last')],
    server,
  );
  const assistant = listener();
  await upstream.send(asMessage({ id: 1, method: 'ping' }), assistant.deliver, signal);
  await upstream.close(signal);

  expect(seen).toEqual(['first sends', 'last sends', 'last delivers', 'first delivers']);
  expect([assistant.said.length, server.closed()]).toEqual([1, true]);
});
