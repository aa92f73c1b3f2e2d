import { describe, expect, test } from 'vitest';
import { parseAccept } from '#server/gateway/accept';

const both = { json: true, events: true };
const json = { json: true, events: false };
const events = { json: false, events: true };
const neither = { json: false, events: false };

describe('an Accept header allows', () => {
  test.each([
    [undefined, json],
    ['', json],
    ['  ', json],
    ['*/*', json],
    ['application/*', json],
    ['application/json', json],
    ['Application/JSON; charset=utf-8', json],
    ['text/html, application/json;q=0.1', json],
    ['text/event-stream', events],
    ['text/*', events],
    ['application/json, text/event-stream', both],
    ['application/json,text/event-stream;q=0.5', both],
    ['text/event-stream, */*', both],
    ['application/json, text/event-stream;q=0', json],
    ['application/json, text/event-stream; Q=0.000', json],
    ['*/*;q=0', neither],
    ['text/html', neither],
    ['application/jsonp', neither],
  ])('%j: %j', (header, accepts) => {
    expect(parseAccept(header)).toEqual(accepts);
  });
});

test('the most specific range decides, wherever it stands', () => {
  expect(parseAccept('application/json;q=0, */*').json).toBe(false);
  expect(parseAccept('*/*, application/json;q=0.0').json).toBe(false);
  expect(parseAccept('text/*;q=0, text/event-stream').events).toBe(true);
});
