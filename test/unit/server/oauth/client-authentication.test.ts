import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ImmediateAdapter } from '#server/db/sqlite/immediate-adapter';
import { hashSecret, mintSecret } from '#server/secrets/secrets';
import {
  assertionAlgorithms,
  authenticateClient,
  claimedClient,
  privateKeyJwt,
} from '#server/oauth/client-authentication';
import { stillClock } from '#support/still-clock';
import { clientDatabase, someClient, type ClientDatabase } from '#support/client-database';

const base = 'https://latchkey.example';
const otherThan = (alg: string) => (alg === 'ES256' ? 'ES384' : 'ES256');
const client = someClient();
let database: ClientDatabase;
let secret: string;

beforeEach(async () => {
  database = await clientDatabase();
  secret = await database.keep(client);
});
afterEach(() => database[Symbol.asyncDispose]());

async function authenticate(form: Record<string, string>, authorization?: string) {
  return authenticateClient(new Map(Object.entries(form)), authorization, {
    db: database.db,
    clock: stillClock(),
  });
}

const basic = (id: string, password: string) =>
  `Basic ${Buffer.from(`${id}:${password}`).toString('base64')}`;

test('43: a client that registered keys cannot use a secret', async () => {
  const keyed = someClient({ id: `client_${'k'.repeat(24)}`, jwks: '{"keys":[]}' });
  const kept = await database.keep(keyed);

  await expect(authenticate({ client_id: keyed.id, client_secret: kept })).rejects.toMatchObject({
    code: 'invalid_client',
  });
});

describe('a client is authenticated', () => {
  test('by id and secret in the body', async () => {
    expect(await authenticate({ client_id: client.id, client_secret: secret })).toEqual(client);
  });

  test('by HTTP Basic', async () => {
    expect(await authenticate({}, basic(client.id, secret))).toEqual(client);
  });

  test('by HTTP Basic with the id again in the body', async () => {
    expect(await authenticate({ client_id: client.id }, basic(client.id, secret))).toEqual(client);
  });

  test('by HTTP Basic in which both are percent-encoded, as RFC 6749 requires', async () => {
    const encoded = basic(client.id.replace('_', '%5F'), secret.replace('_', '%5f'));

    expect(await authenticate({}, encoded)).toEqual(client);
  });

  test('by a scheme in any case', async () => {
    const lower = basic(client.id, secret).replace('Basic', 'basic');

    expect(await authenticate({}, lower)).toEqual(client);
  });
});

describe('the client that a request claims to be', () => {
  test.each([
    ['as it is', client.id],
    ['percent-encoded', client.id.replace('_', '%5F')],
    ['with every character percent-encoded', percentEncoded(client.id)],
  ])('is the same for an id %s in the Basic header', (_, id) => {
    expect(claimedClient(new Map(), basic(id, secret))).toBe(client.id);
  });

  test.each(['client%', 'client%FF', 'client%00'])('is %s if that cannot be decoded', (id) => {
    expect(claimedClient(new Map(), basic(id, secret))).toBe(id);
  });

  test('is the one in the body without a Basic header', () => {
    expect(claimedClient(new Map([['client_id', client.id]]), undefined)).toBe(client.id);
  });
});

function percentEncoded(text: string): string {
  return Buffer.from(text).toString('hex').replaceAll(/../g, '%$&');
}

describe('wrong, unknown and revoked get one answer', () => {
  const failed = { code: 'invalid_client', message: 'client authentication failed' };

  test('for a wrong secret', async () => {
    await expect(
      authenticate({ client_id: client.id, client_secret: mintSecret('secret_') }),
    ).rejects.toMatchObject(failed);
  });

  test('for a client that does not exist', async () => {
    await expect(
      authenticate({ client_id: 'client_unknown', client_secret: secret }),
    ).rejects.toMatchObject(failed);
  });

  test('for a client that was revoked', async () => {
    const revoked = someClient({ id: 'client_revoked', revokedAt: 1_700_000_001 });
    const itsSecret = await database.keep(revoked);

    await expect(
      authenticate({ client_id: revoked.id, client_secret: itsSecret }),
    ).rejects.toMatchObject(failed);
  });

  test("for another client's secret", async () => {
    const other = await database.keep(someClient({ id: 'client_other' }));

    await expect(
      authenticate({ client_id: client.id, client_secret: other }),
    ).rejects.toMatchObject(failed);
  });

  test('for no secret at all', async () => {
    await expect(authenticate({ client_id: client.id })).rejects.toMatchObject(failed);
  });

  test.each([
    ['Basic without a colon', `Basic ${Buffer.from('client').toString('base64')}`],
    ['Basic without a value', 'Basic '],
    ['Basic that is not base64', 'Basic ***'],
    ['another scheme', 'Bearer abcdefgh'],
    ['an empty header', ''],
  ])('for %s, with a challenge for Basic', async (_, authorization) => {
    await expect(authenticate({}, authorization)).rejects.toMatchObject({
      ...failed,
      challenge: 'Basic',
    });
  });
});

test('26: a wrong secret, an unknown and a revoked client cost the same statements', async () => {
  const revoked = someClient({ id: 'client_revoked', revokedAt: 1_700_000_001 });
  const tries = {
    'wrong secret': { client_id: client.id, client_secret: mintSecret('secret_') },
    'unknown client': { client_id: 'client_unknown', client_secret: mintSecret('secret_') },
    'revoked client': { client_id: revoked.id, client_secret: await database.keep(revoked) },
  };
  for (const tried of Object.values(tries))
    expect(await statementsFor(tried)).toEqual([
      {
        sql: expect.stringContaining('from client_secret '),
        of: hashSecret(tried.client_secret),
      },
      { sql: expect.stringContaining('from oauth_client '), of: tried.client_id },
    ]);
});

test('only a client that used HTTP Basic is challenged to use it', async () => {
  await expect(authenticate({}, basic(client.id, 'wrong'))).rejects.toMatchObject({
    challenge: 'Basic',
  });
  await expect(
    authenticate({ client_id: client.id, client_secret: 'wrong' }),
  ).rejects.toMatchObject({ challenge: undefined });
});

test('a secret with a wrong checksum is refused without looking it up', async () => {
  database.connection.exec('alter table client_secret rename to unread');
  const mistyped = secret.slice(0, -1) + (secret.endsWith('a') ? 'b' : 'a');

  await expect(
    authenticate({ client_id: client.id, client_secret: mistyped }),
  ).rejects.toMatchObject({ code: 'invalid_client' });
});

describe('an ambiguous or incomplete request is invalid_request', () => {
  test('with a secret in the header and in the body', async () => {
    await expect(
      authenticate({ client_id: client.id, client_secret: secret }, basic(client.id, secret)),
    ).rejects.toMatchObject({ code: 'invalid_request' });
  });

  test('with another client_id in the body than in the header', async () => {
    await expect(
      authenticate({ client_id: 'client_other' }, basic(client.id, secret)),
    ).rejects.toMatchObject({ code: 'invalid_request' });
  });

  test('with no client_id', async () => {
    await expect(authenticate({ client_secret: secret })).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'client_id is missing',
    });
  });
});

test('a database that fails is not a refusal of the client', async () => {
  database.connection.exec('alter table client_secret rename to unread');

  await expect(authenticate({ client_id: client.id, client_secret: secret })).rejects.toThrow(
    'no such table',
  );
});

/** The statements that the check of a refused client executes, in order, each with its first parameter. */
async function statementsFor(tried: { client_id: string; client_secret: string }) {
  const executed = vi.spyOn(database.db.getExecutor(), 'executeQuery');
  const read = vi.spyOn(ImmediateAdapter.prototype, 'readNow');
  try {
    await expect(authenticate(tried)).rejects.toMatchObject({ code: 'invalid_client' });
    expect(executed).not.toHaveBeenCalled();
    return read.mock.calls.map(([sql, [of]]) => ({ sql, of }));
  } finally {
    executed.mockRestore();
    read.mockRestore();
  }
}

test('on SQLite a client is authenticated without waiting, except when the use of its secret is recorded', async () => {
  const form = new Map([
    ['client_id', client.id],
    ['client_secret', secret],
  ]);
  const ports = { db: database.db, clock: stillClock() };

  const recorded = authenticateClient(form, undefined, ports);
  expect(recorded).toBeInstanceOf(Promise);
  expect(await recorded).toEqual(client);
  expect(authenticateClient(form, undefined, ports)).toEqual(client);
});

test('while a transaction is open, a client is not looked up on its connection without waiting', async () => {
  const form = new Map([
    ['client_id', client.id],
    ['client_secret', secret],
  ]);
  const ports = { db: database.db, clock: stillClock() };
  await authenticateClient(form, undefined, ports);
  database.connection.exec('begin');

  const authenticated = authenticateClient(form, undefined, ports);
  expect(authenticated).toBeInstanceOf(Promise);
  expect(await authenticated).toMatchObject({ id: client.id });
  database.connection.exec('rollback');
});

describe.each(assertionAlgorithms)('26: an assertion signed by %s with a wrong key', (alg) => {
  test.each([
    'has another key for it',
    'has a key for another algorithm',
    'has no key',
    'is unknown',
    'is revoked',
  ] as const)('takes one verification where the client %s', async (what) => {
    const clock = stillClock();
    const [registered, wrong] = await Promise.all(
      [what === 'has a key for another algorithm' ? otherThan(alg) : alg, alg].map((one) =>
        generateKeyPair(one),
      ),
    );
    const jwk = registered && (await exportJWK(registered.publicKey));
    const keyed = someClient({
      id: `client_${'k'.repeat(24)}`,
      jwks: what === 'has no key' ? undefined : JSON.stringify({ keys: [jwk] }),
      revokedAt: what === 'is revoked' ? clock.now() : undefined,
    });
    if (what !== 'is unknown') await database.keep(keyed);
    const signed = await new SignJWT({ jti: 'j', iss: keyed.id, sub: keyed.id, aud: base })
      .setProtectedHeader({ alg })
      .setExpirationTime(clock.now() + 60)
      .sign(wrong?.privateKey ?? new Uint8Array());
    const verify = vi.spyOn(crypto.subtle, 'verify');
    onTestFinished(() => verify.mockRestore());

    const form = new Map([
      ['client_assertion', signed],
      ['client_assertion_type', 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'],
    ]);
    const answer = privateKeyJwt(form, { base, db: database.db, clock });

    await expect(answer).rejects.toMatchObject({ code: 'invalid_client' });
    expect(verify).toHaveBeenCalledTimes(1);
  });
});
