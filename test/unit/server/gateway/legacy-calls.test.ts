import { expect, test, vi } from 'vitest';

import { Cancellations } from '#server/gateway/legacy-calls';

test('a request ends when its owner cancels its id', () => {
  const cancellations = new Cancellations();
  const controller = new AbortController();
  cancellations.expect('key:a srv_1', '7', controller);
  cancellations.cancel('key:a srv_1', '7');

  expect(controller.signal.aborted).toBe(true);
});

test.each([
  ['another owner', 'key:b srv_1', '7'],
  ['another server', 'key:a srv_2', '7'],
  ['another id', 'key:a srv_1', '8'],
  ['the same id as a string', 'key:a srv_1', '"7"'],
  ['no id', 'key:a srv_1', undefined],
])('a request continues when %s is cancelled', (_, owner, id) => {
  const cancellations = new Cancellations();
  const controller = new AbortController();
  cancellations.expect('key:a srv_1', '7', controller);
  cancellations.cancel(owner, id);

  expect(controller.signal.aborted).toBe(false);
});

test('a request that has ended is not cancelled any more', () => {
  const cancellations = new Cancellations();
  const controller = new AbortController();
  cancellations.expect('key:a srv_1', '7', controller)();
  cancellations.cancel('key:a srv_1', '7');

  expect(controller.signal.aborted).toBe(false);
});

test('if one of two requests with the same id ends, the other can still be cancelled', () => {
  const cancellations = new Cancellations();
  const second = new AbortController();
  const over = cancellations.expect('key:a srv_1', '7', new AbortController());
  cancellations.expect('key:a srv_1', '7', second);
  over();
  cancellations.cancel('key:a srv_1', '7');

  expect(second.signal.aborted).toBe(true);
});

test('a notification has no id and cannot be cancelled', () => {
  const cancellations = new Cancellations();
  const controller = new AbortController();
  cancellations.expect('key:a srv_1', undefined, controller)();
  cancellations.cancel('key:a srv_1', undefined);
  cancellations.cancel('key:a srv_1', 'undefined');

  expect(controller.signal.aborted).toBe(false);
});

test('other nodes get the cancellation of a request that is not here, and of no other', () => {
  const told: object[] = [];
  const cancellations = new Cancellations((event) => void told.push(event));
  const controller = new AbortController();
  cancellations.expect('key:a srv_1', '7', controller);
  cancellations.cancel('key:a srv_1', '7');
  cancellations.cancel('key:a srv_1', '8');
  cancellations.cancel('key:a srv_1', undefined);

  expect(told).toEqual([{ type: 'cancelled', owner: 'key:a srv_1', request: '8' }]);
  expect(cancellations.cancelHere('key:a srv_1', '9')).toBe(false);
  expect(told).toHaveLength(1);
});

test('107: other nodes are not told of an id that is too long for any request', () => {
  const tell = vi.fn<(event: object) => void>();
  const cancellations = new Cancellations(tell);
  cancellations.cancel('key:a srv_1', `"${'x'.repeat(1023)}"`);

  expect(tell).not.toHaveBeenCalled();
});
