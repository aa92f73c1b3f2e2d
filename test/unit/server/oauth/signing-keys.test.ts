import { jwtVerify, SignJWT } from 'jose';
import { expect, test } from 'vitest';

import { insertSigningKey, listSigningKeys } from '#server/db/signing-keys';
import { masterKey } from '#server/secrets/master-key';
import { readSigningKeys, rotateSigningKey } from '#server/oauth/signing-keys';
import { openDatabase } from '#support/open-database';
import { stillClock } from '#support/still-clock';

const master = masterKey(Buffer.alloc(32, 1));

test('the first signing key is created if there is none, and stored', async () => {
  await using stores = await openDatabase();
  const clock = stillClock();
  const first = await readSigningKeys(stores.db, { masterKey: master, clock });
  const again = await readSigningKeys(stores.db, { masterKey: master, clock });
  const stored = await listSigningKeys(stores.db);

  expect(stored).toHaveLength(1);
  expect(stored[0]?.createdAt).toBe(clock.now());
  expect(again.current.kid).toBe(first.current.kid);
});

test('the JWKS document contains Ed25519 public keys and no private member', async () => {
  await using stores = await openDatabase();
  const { jwks, current } = await readSigningKeys(stores.db, {
    masterKey: master,
    clock: stillClock(),
  });

  expect(jwks).toEqual({
    keys: [
      {
        kty: 'OKP',
        crv: 'Ed25519',
        x: expect.stringMatching(/^[\w-]{43}$/),
        kid: current.kid,
        alg: 'EdDSA',
        use: 'sig',
      },
    ],
  });
});

test('the private key is stored sealed, so that the database alone signs nothing', async () => {
  await using stores = await openDatabase();
  const { db } = stores;
  await readSigningKeys(db, { masterKey: master, clock: stillClock() });
  const [kept] = await listSigningKeys(db);

  expect(kept?.encryptedPrivateKey).toMatch(/^[\w-]+$/);
  expect(kept?.publicJwk).not.toContain('"d"');
  await expect(
    readSigningKeys(db, { masterKey: masterKey(Buffer.alloc(32, 2)), clock: stillClock() }),
  ).rejects.toThrow('the master key is not the one of this installation');
});

test('a sealed private key that is moved to another kid does not open', async () => {
  await using stores = await openDatabase();
  await using moved = await openDatabase();
  await readSigningKeys(stores.db, { masterKey: master, clock: stillClock() });
  for (const key of await listSigningKeys(stores.db)) {
    const publicJwk = key.publicJwk.replace(key.kid, 'another');
    await insertSigningKey(moved.db, { ...key, kid: 'another', publicJwk });
  }

  await expect(
    readSigningKeys(moved.db, { masterKey: master, clock: stillClock() }),
  ).rejects.toThrow('the master key is not the one of this installation');
});

test('a rotation with another master key is refused, and the current key continues to sign', async () => {
  const clock = stillClock();
  await using stores = await openDatabase();
  const { db } = stores;
  const { current } = await readSigningKeys(db, { masterKey: master, clock });

  const other = masterKey(Buffer.alloc(32, 2));
  await expect(rotateSigningKey(db, { masterKey: other, clock })).rejects.toThrow(
    'the master key is not the one of this installation',
  );

  clock.advance(60);
  expect((await readSigningKeys(db, { masterKey: master, clock })).current.kid).toBe(current.kid);
});

test('the newest key signs, and older ones still verify', async () => {
  const clock = stillClock();
  await using old = await openDatabase();
  await using newer = await openDatabase();
  const before = await readSigningKeys(old.db, { masterKey: master, clock });
  clock.advance(60);
  const { current } = await readSigningKeys(newer.db, { masterKey: master, clock });
  for (const key of await listSigningKeys(newer.db)) await insertSigningKey(old.db, key);
  clock.advance(5);
  const keys = await readSigningKeys(old.db, { masterKey: master, clock });
  const token = await new SignJWT({ a: 1 })
    .setProtectedHeader({ alg: 'EdDSA' })
    .sign(before.current.privateKey);
  const oldPublicKey = keys.publicKeys.get(before.current.kid);

  expect(keys.current.kid).toBe(current.kid);
  expect([...keys.publicKeys.keys()].sort()).toEqual([before.current.kid, current.kid].sort());
  expect(oldPublicKey).toBeDefined();
  expect((await jwtVerify(token, oldPublicKey ?? new Uint8Array())).payload).toEqual({ a: 1 });
});
