import { randomBytes } from 'node:crypto';

import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { findPersonKey, replacePersonKey, setPersonKeyRule } from '#server/db/person-keys';
import { findServer, insertServer } from '#server/db/servers';
import { throughSteps, type UpstreamAnswer, type UpstreamRequest } from '#server/gateway/upstream';
import type { Target } from '#server/model/endpoints';
import { keyProblem, templateProblem } from '#server/model/person-keys';
import { masterKey } from '#server/secrets/master-key';
import {
  keyPurpose,
  PersonKeys,
  requiresKey,
  type KeyedTarget,
} from '#server/upstreams/credentials/person-keys';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from '#support/open-database';
import { stillClock } from '#support/still-clock';
import { patient } from '#support/patient';

const base = 'https://cloud.example';
const page = `${base}/dashboard/acme/servers/crm/account`;
const sealing = masterKey(randomBytes(32));
const of = { targetId: 'target_crm', place: 'https://one.example', userId: 'dana' };

let stores: OpenStores & AsyncDisposable;
let target: KeyedTarget;

beforeEach(async () => {
  stores = await openDatabase();
  await insertOrganization(stores.db, { id: 'org', name: 'acme', createdAt: 1 });
  const user = { id: 'dana', email: 'dana@example.com', createdAt: 1 };
  await insertUser(stores.db, user, { organizationId: 'org', role: 'member' });
  const upstream = { kind: 'http', url: 'https://one.example/mcp' } as const;
  const ids = { id: 'srv_crm', targetId: 'target_crm', organizationId: 'org' };
  await insertServer(stores.db, { ...ids, name: 'crm', upstream, createdAt: 1 });
  const rule = { header: 'authorization', template: 'Token {key}', label: 'Token' };
  await setPersonKeyRule(stores.db, 'target_crm', rule);
  target = keyed((await findServer(stores.db, 'acme', 'crm'))?.target);
});
afterEach(() => stores[Symbol.asyncDispose]());

function keyed(found: Target | undefined): KeyedTarget {
  if (!found || !requiresKey(found)) throw new Error('it requires no key');
  return found;
}

async function enter(key: string, replaces?: number, provedAt?: number): Promise<void> {
  const stored = await replacePersonKey(stores.db, {
    ...of,
    organizationId: 'org',
    sealedKey: sealing.seal(keyPurpose(of), key),
    hint: undefined,
    setAt: 1,
    provedAt,
    replaces,
  });
  expect(stored).toBe(true);
}

/** An upstream that accepts these keys, and the requests that it saw. */
function upstreamOf(
  accepted: readonly string[],
  userId: string | undefined,
  at = target,
  now?: number,
) {
  const onError = vi.fn();
  const clock = now === undefined ? stillClock() : { now: () => now };
  const keys = new PersonKeys({ base, db: stores.db, sealing, clock, onError });
  const own = keys.of(at, userId);
  const send = vi.fn(async ({ headers, key }: UpstreamRequest): Promise<UpstreamAnswer> => {
    const sent = (headers['authorization'] ?? key?.value ?? '').replace('Token ', '');
    return {
      status: accepted.includes(sent) ? 200 : 401,
      mediaType: 'application/json',
      sessionId: undefined,
      retryAfterSeconds: undefined,
      body: Buffer.from('{}'),
    };
  });
  const request = {
    method: 'POST',
    headers: { accept: 'application/json' },
    body: Buffer.from('{}'),
    signal: new AbortController().signal,
  } as const;
  return {
    own,
    call: () => throughSteps([own.step], send)(request),
    seen: () => send.mock.calls.map(([{ headers, key }]) => headers['authorization'] ?? key),
    onError,
  };
}

test('the key of the person is added to their calls, as the administrator says', async () => {
  await enter('first-key-$&');
  const { call, seen, own } = upstreamOf(['first-key-$&'], 'dana');

  expect((await call()).status).toBe(200);
  expect(seen()).toEqual(['Token first-key-$&']);
  expect(own.secrets()).toEqual(['first-key-$&']);
  expect(await own.isConnected()).toBe(true);
});

test.each([
  ['a person without a key', 'eve', 'key_missing'],
  ['a caller that is no person', undefined, 'no_person'],
])('%s reaches no upstream', async (_title, userId, code) => {
  await enter('first-key');
  const { call, seen, own } = upstreamOf(['first-key'], userId);

  await expect((async () => call())()).rejects.toMatchObject({ code, page });
  expect(seen()).toEqual([]);
  expect(await own.isConnected()).toBe(false);
});

test('a key is not sent to another place, even if its row is still there', async () => {
  await enter('first-key');
  const moved = { ...target, upstream: { kind: 'http', url: 'https://two.example/mcp' } } as const;
  const { call, seen } = upstreamOf(['first-key'], 'dana', moved);

  await expect(call()).rejects.toMatchObject({ code: 'key_missing' });
  expect(seen()).toEqual([]);
});

test('to an agent, it goes apart from the headers', async () => {
  await enter('first-key');
  const agent = { ...target, upstream: { kind: 'agent', agentId: 'agt_1' } } as const;
  const place = { ...of, place: 'agent agt_1' };
  const sealed = sealing.seal(keyPurpose(place), 'first-key');
  await stores.db
    .updateTable('person_key')
    .set({ place: place.place, sealed_key: sealed })
    .execute();
  const { call, seen } = upstreamOf(['first-key'], 'dana', agent);

  await call();

  expect(seen()).toEqual([{ name: 'authorization', value: 'Token first-key' }]);
});

test('a new key that is refused does not cost the person the one before, until it is proved', async () => {
  await enter('first-key', undefined, 1);
  await enter('second-key', (await findPersonKey(stores.db, of))?.version);
  const { call, seen } = upstreamOf(['first-key'], 'dana');

  expect((await call()).status).toBe(200);
  expect(seen()).toEqual(['Token second-key', 'Token first-key']);
  await vi.waitFor(
    async () =>
      expect(await findPersonKey(stores.db, of)).toMatchObject({ refusedAt: expect.any(Number) }),
    patient,
  );
});

test('a refused key is noted, and accepted again when the upstream does', async () => {
  await enter('first-key');
  await expect(upstreamOf([], 'dana').call()).rejects.toMatchObject({ code: 'key_refused', page });
  await vi.waitFor(
    async () => expect(await findPersonKey(stores.db, of)).toHaveProperty('refusedAt'),
    patient,
  );
  await upstreamOf(['first-key'], 'dana').call();
  await vi.waitFor(
    async () => expect(await findPersonKey(stores.db, of)).not.toHaveProperty('refusedAt'),
    patient,
  );
});

test('the last use of a key is noted once it was accepted, and again five minutes later', async () => {
  await enter('first-key');
  const lastUse = async () => (await findPersonKey(stores.db, of))?.lastUsedAt;
  const usedAt = async (now: number) => upstreamOf(['first-key'], 'dana', target, now).call();
  await expect(upstreamOf([], 'dana').call()).rejects.toMatchObject({ code: 'key_refused' });

  const before = await lastUse();
  await usedAt(1000);
  await vi.waitFor(async () => expect(await lastUse()).toBe(1000));
  await usedAt(1299);
  const tooSoon = await lastUse();
  await usedAt(1300);

  expect(before).toBeUndefined();
  expect(tooSoon).toBe(1000);
  await vi.waitFor(async () => expect(await lastUse()).toBe(1300));
});

test.each(['', 'short', 'with a space', 'line\nbreak-in-it', 'null\0-in-it-it', 'ключ-ключ-ключ'])(
  'no header is made of the key %j',
  (key) => {
    expect(keyProblem(key)).toBeDefined();
  },
);

test.each(['', 'Bearer', '{key} {key}', ' {key}', '{key}\r\nx: y'])(
  'no header is made of the template %j',
  (template) => {
    expect(templateProblem(template)).toBeDefined();
  },
);
