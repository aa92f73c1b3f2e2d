import { randomBytes } from 'node:crypto';

import { decodeProtectedHeader } from 'jose';
import { afterEach, expect, test, vi } from 'vitest';

import { accessTokens } from '#server/oauth/access-tokens';
import { masterKey } from '#server/secrets/master-key';
import { KeyRing, rotateSigningKey, readSigningKeys } from '#server/oauth/signing-keys';
import { openDatabaseIn } from '#support/open-database';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const act of cleanUp.splice(0).toReversed()) await act();
});

async function opened() {
  const folder = await temporaryFolder('keys');
  const stores = await openDatabaseIn(folder.path);
  const ports = { masterKey: masterKey(randomBytes(32)), clock: fakeClock(), failed: vi.fn() };
  const ring = await KeyRing.open(stores.db, ports);
  cleanUp.push(
    () => folder[Symbol.asyncDispose](),
    () => stores.close(),
    () => ring.close(),
  );
  return { ring, db: stores.db, ...ports };
}

const claims = (now: number) => ({
  id: 'jti',
  subject: 'user_dana',
  clientId: 'client_a',
  audience: 'https://latchkey.example/mcp/acme/sales',
  scopes: [],
  issuedAt: now,
  expiresAt: now + 3600,
});

function kidOf(token: string): unknown {
  return decodeProtectedHeader(token).kid;
}

test('a new key is published five seconds before it signs', async () => {
  const { ring, db, ...ports } = await opened();
  const before = ring.current.kid;
  await ports.clock.advance(60);
  const added = await rotateSigningKey(db, ports);
  await ring.refresh();
  expect([...ring.publicKeys.keys()]).toContain(added);
  expect(ring.current.kid).toBe(before);

  await ports.clock.advance(4);
  await ring.refresh();
  expect(ring.current.kid).toBe(before);

  await ports.clock.advance(1);
  await ring.refresh();
  expect(ring.current.kid).toBe(added);
});

test('a token of a key that another process has just created is accepted immediately', async () => {
  const { ring, db, ...ports } = await opened();
  const issuer = 'https://latchkey.example';
  const mine = accessTokens(issuer, { keys: ring, refreshKeys: () => ring.refresh(), ...ports });
  await rotateSigningKey(db, ports);
  await ports.clock.advance(5);
  const theirs = accessTokens(issuer, {
    keys: await readSigningKeys(db, ports),
    ...ports,
  });

  const token = theirs.issue(claims(ports.clock.now()));

  expect(kidOf(token)).not.toBe(ring.current.kid);
  expect(await mine.verify(token)).toMatchObject({ outcome: 'valid' });
  expect(ring.jwks.keys).toHaveLength(2);
});

test('tokens of the old key are valid until they expire, and then the key is forgotten', async () => {
  const { ring, db, ...ports } = await opened();
  const before = ring.current.kid;
  const token = accessTokens('iss', { keys: ring, ...ports }).issue(claims(ports.clock.now()));
  await rotateSigningKey(db, ports);
  await ports.clock.advance(3599);
  await ring.refresh();

  expect(ring.current.kid).not.toBe(before);
  expect(await accessTokens('iss', { keys: ring, ...ports }).verify(token)).toMatchObject({
    outcome: 'valid',
  });

  await ports.clock.advance(3601);
  await ring.refresh();

  expect([...ring.publicKeys.keys()]).toEqual([ring.current.kid]);
});

test('a hundred tokens of unknown keys cause one read', async () => {
  const { ring, db } = await opened();
  await ring.refresh();
  const list = vi.spyOn(db, 'selectFrom');

  await Promise.all(Array.from({ length: 100 }, () => ring.refresh()));

  expect(list).toHaveBeenCalledTimes(1);
});
