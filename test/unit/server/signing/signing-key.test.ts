import { jwtVerify, SignJWT } from 'jose';
import { expect, test } from 'vitest';
import { masterKey } from '#server/signing/master-key';
import { readSigningKeys } from '#server/signing/signing-key';
import { stillClock } from '#support/still-clock';
import { memorySigningKeyStore } from '#support/memory-signing-keys';

const master = masterKey(Buffer.alloc(32, 1));

test('the first signing key is made where there is none, and kept', async () => {
  const store = memorySigningKeyStore();
  const clock = stillClock();
  const first = await readSigningKeys(store, { masterKey: master, clock });
  const again = await readSigningKeys(store, { masterKey: master, clock });

  expect(store.keys).toHaveLength(1);
  expect(store.keys[0]?.createdAt).toBe(clock.now());
  expect(again.current.kid).toBe(first.current.kid);
});

test('the JWKS document holds Ed25519 public keys and no private member', async () => {
  const { jwks, current } = await readSigningKeys(memorySigningKeyStore(), {
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

test('the private half is kept sealed, so that the database alone signs nothing', async () => {
  const store = memorySigningKeyStore();
  await readSigningKeys(store, { masterKey: master, clock: stillClock() });
  const [kept] = store.keys;

  expect(kept?.encryptedPrivateKey).toMatch(/^[\w-]+$/);
  expect(kept?.publicJwk).not.toContain('"d"');
  await expect(
    readSigningKeys(store, { masterKey: masterKey(Buffer.alloc(32, 2)), clock: stillClock() }),
  ).rejects.toThrow('unable to authenticate');
});

test('a sealed private key that is moved to another kid does not open', async () => {
  const store = memorySigningKeyStore();
  await readSigningKeys(store, { masterKey: master, clock: stillClock() });
  const moved = memorySigningKeyStore();
  for (const key of store.keys) {
    const publicJwk = key.publicJwk.replace(key.kid, 'another');
    await moved.add({ ...key, kid: 'another', publicJwk });
  }

  await expect(readSigningKeys(moved, { masterKey: master, clock: stillClock() })).rejects.toThrow(
    'unable to authenticate',
  );
});

test('the newest key signs, and older ones go on verifying', async () => {
  const clock = stillClock();
  const old = memorySigningKeyStore();
  const before = await readSigningKeys(old, { masterKey: master, clock });
  clock.advance(60);
  const newer = memorySigningKeyStore();
  const { current } = await readSigningKeys(newer, { masterKey: master, clock });
  for (const key of newer.keys) await old.add(key);
  const keys = await readSigningKeys(old, { masterKey: master, clock });
  const token = await new SignJWT({ a: 1 })
    .setProtectedHeader({ alg: 'EdDSA' })
    .sign(before.current.privateKey);
  const oldPublicKey = keys.publicKeys.get(before.current.kid);

  expect(keys.current.kid).toBe(current.kid);
  expect([...keys.publicKeys.keys()].sort()).toEqual([before.current.kid, current.kid].sort());
  expect(oldPublicKey).toBeDefined();
  expect((await jwtVerify(token, oldPublicKey ?? new Uint8Array())).payload).toEqual({ a: 1 });
});
