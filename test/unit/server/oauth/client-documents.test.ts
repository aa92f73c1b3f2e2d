import { afterEach, beforeEach, expect, test } from 'vitest';

import { ClientDocuments, readProvidedDocument } from '#server/oauth/client-documents';
import { OutboundError } from '#server/outbound/checked-addresses';
import { refusal } from '#support/authorization-server';
import { clientDatabase, type ClientDatabase } from '#support/client-database';
import { stillClock, type StillClock } from '#support/still-clock';

const base = 'https://latchkey.example';
const url = (name: number | string) => `https://client.test/${name}.json`;
let clock: StillClock;
let fetched: string[];
let documents: ClientDocuments;
/** The document that the site has at a URL; reading it fails if it is `undefined`. */
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

test('a failure is cached for a minute, and says when the document is read again', async () => {
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

test('a cached failure does not count against the limit of requests', async () => {
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

test('a person over the limit may continue when their oldest request is a minute old', async () => {
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

const described = (name: string) =>
  readProvidedDocument(JSON.stringify({ ...JSON.parse(right(url('given'))), client_name: name }));
const withProvided = (name: string) =>
  new ClientDocuments({
    base,
    clock,
    db: database.db,
    fetchDocument: () => Promise.reject(new Error('nothing is fetched')),
    provided: [described(name)],
  });

test('a document of the operator is a client without being fetched, also after an hour', async () => {
  const provided = withProvided('Given');
  const first = await provided.client(url('given'), undefined);
  clock.advance(3600);
  const later = await provided.client(url('given'), undefined);

  expect([first, later]).toMatchObject([{ name: 'Given' }, { name: 'Given' }]);
});

test('a document of the operator that was replaced applies at the next start', async () => {
  await withProvided('Before').client(url('given'), 'user_1');

  expect(await withProvided('After').client(url('given'), 'user_1')).toMatchObject({
    name: 'After',
  });
});

test.each([
  ['is not JSON', '{'],
  ['names no URL', JSON.stringify({ redirect_uris: ['https://client.test/cb'] })],
  ['names an http URL', right('http://client.test/a.json')],
  ['has no redirect URI', JSON.stringify({ client_id: url('a'), redirect_uris: [] })],
])('a document of the operator that %s is refused', (_, text) => {
  expect(() => readProvidedDocument(text)).toThrow(
    expect.objectContaining(refusal('invalid_client_metadata')),
  );
});

test.each(['forbidden', 'unreachable', 'timeout'] as const)(
  'a host that is %s is named in the refusal, which does not tell why',
  async (code) => {
    const cause = new OutboundError(code, 'the reason is for the log');
    documents = new ClientDocuments({
      base,
      clock,
      db: database.db,
      fetchDocument: () => Promise.reject(cause),
    });
    const refused = {
      ...refusal('invalid_client'),
      message: expect.stringContaining('this server cannot reach client.test'),
      unreachableHost: 'client.test',
      cause,
    };

    await expect(documents.client(url('a'), 'user_1')).rejects.toMatchObject(refused);
    await expect(documents.client(url('a'), 'user_1')).rejects.toMatchObject(refused);
  },
);

test('a URL of more than 2000 characters is not a client id', async () => {
  answer = right;

  expect(await documents.client(url('a'.repeat(2000)), 'user_1')).toBeUndefined();
  expect(fetched).toEqual([]);
});
