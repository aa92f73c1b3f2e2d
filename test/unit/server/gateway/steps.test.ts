import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import type { Arrived } from '#server/gateway/call';
import { callPath } from '#server/gateway/pipeline';
import type { GatewayAnswer } from '#server/gateway/request';
import { Applications } from '#server/gateway/applications';
import { Metering } from '#server/gateway/metering';
import { type Failing, type Path, Steps } from '#server/gateway/steps';

type Counted = Arrived & { readonly passed: readonly string[] };

const answer: GatewayAnswer = { status: 200, headers: {} };

const request: Arrived['request'] = {
  id: 'request-1',
  method: 'POST',
  organization: 'acme',
  server: 'sales',
  headers: {},
  rawHeaders: [],
  readBody: () => Buffer.alloc(0),
  gone: new AbortController().signal,
};
const arrived: Arrived = {
  request,
  metering: new Metering(request, { note: () => undefined }, new Applications()),
};

function passedBy(path: Path<Failing>) {
  const failures: { readonly error: unknown; readonly call: Arrived }[] = [];
  const failed = (error: unknown, call: Arrived) => {
    failures.push({ error, call });
    return { status: 500, headers: {} };
  };
  return { answered: path.pass(arrived, { failed }), failures };
}

const begin = (call: Arrived): Counted => ({ ...call, passed: ['begin'] });
const further = (name: string) => (call: Counted) => ({ ...call, passed: [...call.passed, name] });

test('ARCHITECTURE.md: names the steps of a call in the order in which the gateway takes them', async () => {
  const documentation = join(import.meta.dirname, '../../../../ARCHITECTURE.md');
  const text = (await readFile(documentation, 'utf8')).replaceAll(/\s+/g, ' ');

  expect(text).toContain(`lists the steps of a call: ${callPath.names.join(' → ')}.`);
});

test('steps: each gets what the one before it returned, in the same turn', () => {
  const seen: (readonly string[])[] = [];
  const path = Steps.first('begin', begin)
    .next('further', further('further'))
    .last('end', ({ passed }) => {
      seen.push(passed);
      return answer;
    });

  expect(passedBy(path).answered).toBe(answer);
  expect(seen).toEqual([['begin', 'further']]);
});

test('steps: one that waits goes on with what it waited for', async () => {
  const seen: (readonly string[])[] = [];
  const path = Steps.first('begin', begin)
    .next('later', async (call) => further('later')(call))
    .last('end', ({ passed }) => {
      seen.push(passed);
      return answer;
    });

  expect(await passedBy(path).answered).toBe(answer);
  expect(seen).toEqual([['begin', 'later']]);
});

test.each([
  ['at once', (): GatewayAnswer => answer],
  ['later', async (): Promise<GatewayAnswer> => answer],
])('steps: an answer %s ends the path', async (_, early) => {
  const path = Steps.first('begin', begin)
    .next<Counted>('early', early)
    .last('end', () => {
      throw new Error('reached');
    });
  const { answered, failures } = passedBy(path);

  expect(await answered).toBe(answer);
  expect(failures).toEqual([]);
});

test.each([
  [
    'throws',
    () => {
      throw new Error('no');
    },
  ],
  ['rejects', async () => Promise.reject(new Error('no'))],
  [
    'waits and then throws',
    async () => {
      await Promise.resolve();
      throw new Error('no');
    },
  ],
])('steps: one that %s fails with the call that it was given', async (_, fail) => {
  const path = Steps.first('begin', begin)
    .next('further', further('further'))
    .next<Counted>('fail', fail)
    .last('end', () => answer);
  const { answered, failures } = passedBy(path);

  expect(await answered).toMatchObject({ status: 500 });
  expect(failures).toEqual([
    { error: new Error('no'), call: { ...arrived, passed: ['begin', 'further'] } },
  ]);
});
