import { afterEach, beforeEach, expect, test } from 'vitest';

import { ClientDocuments } from '#server/oauth/client-documents';
import { refusal } from '#support/authorization-server';
import { clientDatabase, type ClientDatabase } from '#support/client-database';
import { stillClock, type StillClock } from '#support/still-clock';

const base = 'https://latchkey.example';
const url = (name: number | string) => `https://client.test/${name}.json`;
let clock: StillClock;
let fetched: string[];
let documents: ClientDocuments;
/** What the site answers; nothing where it is `undefined`. */
let answer: (at: string) => string | undefined;
let database: ClientDatabase;

beforeEach(async () => {
  clock = stillClock();
  database = await clientDatabase();
  fetched = [];
  answer = () => undefined;
  documents = new ClientDocuments({
    base,
    clock,
    db: database.db,
    fetchDocument: async (at) => {
      fetched.push(at);
      const text = answer(at);
      if (text === undefined) throw new Error('not there');
      return text;
    },
  });
});
afterEach(() => database[Symbol.asyncDispose]());

const right = (id: string) =>
  JSON.stringify({ client_id: id, redirect_uris: ['https://client.test/cb'] });

test('a failure is remembered for a minute, and says when the document is read again', async () => {
  const first = documents.client(url('a'), 'user_1');
  await expect(first).rejects.toMatchObject({ retryAfterSeconds: 60 });
  clock.advance(59);
  const again = documents.client(url('a'), 'user_2');
  await expect(again).rejects.toMatchObject({
    ...refusal('invalid_client'),
    message: expect.stringMatching(/Latchkey reads it again in 1 second$/),
    retryAfterSeconds: 1,
  });
  clock.advance(1);
  answer = right;

  expect(await documents.client(url('a'), 'user_1')).toMatchObject({ id: url('a') });
  expect(fetched).toEqual([url('a'), url('a')]);
});

test('a remembered failure costs nobody one of their requests', async () => {
  for (let n = 0; n < 10; n += 1) {
    await expect(documents.client(url('a'), 'user_1')).rejects.toMatchObject(
      refusal('invalid_client'),
    );
  }
  answer = right;

  expect(await documents.client(url('b'), 'user_1')).toMatchObject({ id: url('b') });
  expect(fetched).toEqual([url('a'), url('b')]);
});

test('of more than a thousand failures the oldest is forgotten', async () => {
  for (let n = 0; n <= 1000; n += 1) {
    await expect(documents.client(url(n), `user_${n}`)).rejects.toThrow('could not be read');
  }
  fetched = [];
  await expect(documents.client(url(0), 'user_new')).rejects.toThrow('could not be read');
  await expect(documents.client(url(1000), 'user_new')).rejects.toThrow('could not be read');

  expect(fetched).toEqual([url(0)]);
});

test('a person who waits may go on as soon as their oldest request is a minute old', async () => {
  answer = right;
  for (let n = 0; n < 5; n += 1) {
    await documents.client(url(n), 'user_1');
    clock.advance(10);
  }
  const waiting = documents.client(url(5), 'user_1');

  await expect(waiting).rejects.toMatchObject({ ...refusal('slow_down'), retryAfterSeconds: 10 });
  clock.advance(10);
  expect(await documents.client(url(5), 'user_1')).toMatchObject({ id: url(5) });
});

test('a database that cannot be written is no failure of the document', async () => {
  answer = right;
  database.breakWrites('oauth_client');
  await expect(documents.client(url('a'), 'user_1')).rejects.toThrow('disk full');
  database.mend();

  expect(await documents.client(url('a'), 'user_1')).toMatchObject({ id: url('a') });
});

test('a URL of more than 2000 characters is no client', async () => {
  answer = right;

  expect(await documents.client(url('a'.repeat(2000)), 'user_1')).toBeUndefined();
  expect(fetched).toEqual([]);
});
