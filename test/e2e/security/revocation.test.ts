import { afterAll, describe, expect, test } from 'vitest';
import { acmeServer, basic, bearer, type Credential } from '#support/acme-server';
import { patient } from '#support/patient';

const server = await acmeServer();
afterAll(() => server[Symbol.asyncDispose]());
const client = await server.client();
const revoke = (token: string, by = client) =>
  server.post('/api/oauth/revoke', { token, client_id: by.id, client_secret: by.secret });

test('45: revocation: an invalid or already revoked token gets an empty object', async () => {
  const token = await server.token(client);
  await revoke(token);
  const [header, claims, signature = ''] = token.split('.');
  const forged = `${header}.${claims}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`;
  const unknown = [
    token,
    forged,
    'x',
    'a.b.c',
    `rt_${'0'.repeat(36)}`,
    client.secret,
    'é',
    'x'.repeat(9999),
  ];

  for (const text of unknown) {
    const answer = await revoke(text);

    expect(answer.status).toBe(200);
    expect(answer.text).toBe('{}');
    expect(answer.headers.get('cache-control')).toBe('no-store');
  }
});

test('45: revocation: a request without a token is an error', async () => {
  for (const token of ['', undefined]) {
    const answer = await server.post(
      '/api/oauth/revoke',
      token === undefined ? {} : { token },
      basic(client.id, client.secret),
    );

    expect(answer.status).toBe(400);
    expect(answer.json['error']).toBe('invalid_request');
  }
});

test('45: revocation: a client that fails to authenticate revokes nothing', async () => {
  const token = await server.token(client);
  const other = await server.client();
  const wrong = { ...client, secret: other.secret };
  const answers = [
    await revoke(token, wrong),
    await revoke(token, { id: `client_${'A'.repeat(24)}`, secret: client.secret }),
    await server.post('/api/oauth/revoke', { token, client_id: client.id }),
    await server.post('/api/oauth/revoke', { token }, basic(client.id, other.secret)),
    await server.post('/api/oauth/revoke', { token }, bearer(token)),
  ];

  for (const { status, json } of answers) {
    expect(status).toBe(401);
    expect(json['error']).toBe('invalid_client');
  }
  expect((await server.post('/api/oauth/revoke', { token })).status).toBe(400);
  expect((await server.call(bearer(token))).status).toBe(200);
});

test('45: revocation: another client’s token gets 200 and stays valid', async () => {
  const other = await server.client();
  const token = await server.token(client);

  const answer = await revoke(token, other);

  expect(answer.status).toBe(200);
  expect(answer.text).toBe('{}');
  expect((await server.call(bearer(token))).status).toBe(200);
});

test.each(['access_token', 'refresh_token', 'nonsense'])(
  '45: revocation: the hint %s is only a hint',
  async (hint) => {
    const token = await server.token(client);
    await server.post(
      '/api/oauth/revoke',
      { token, token_type_hint: hint },
      basic(client.id, client.secret),
    );

    expect((await server.call(bearer(token))).status).toBe(401);
  },
);

test('46: revocation: a revoked JWT is refused from the next call on, and no other token is', async () => {
  const token = await server.token(client);
  const another = await server.token(client);
  expect((await server.call(bearer(token))).status).toBe(200);

  await revoke(token);
  const reached = server.upstream.received.length;
  const answer = await server.call(bearer(token));

  expect(answer.status).toBe(401);
  expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
  expect(server.upstream.received).toHaveLength(reached);
  expect((await server.call(bearer(another))).status).toBe(200);
});

test('46: revocation: a revoked JWT is refused in every other spelling', async () => {
  const token = await server.token(client);
  await revoke(token);
  const [header = '', claims = '', signature = ''] = token.split('.');
  // The last character of 64 bytes in base64url carries two bits; the other four are free to forge.
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(signature.at(-1) ?? '');
  const twins = [1, 2, 15].map((bits) => signature.slice(0, -1) + (alphabet[last ^ bits] ?? ''));
  const spellings = [
    ...twins.map((twin) => `${header}.${claims}.${twin}`),
    `${token}=`,
    `${token}==`,
    `${header}=.${claims}.${signature}`,
    `${token}.`,
    token.replaceAll('-', '+').replaceAll('_', '/'),
  ];

  for (const spelling of spellings) {
    expect((await server.call(bearer(spelling))).status).toBe(401);
  }
});

describe('46: revocation: an open stream ends within 1 s, and the next call gets 401', () => {
  test('46: when its token is revoked', async () => {
    const token = await server.token(client);

    expect(await cutOff(bearer(token), () => revoke(token))).toEqual(atOnce);
  });

  test('46: when its client is revoked on the command line', async () => {
    const revoked = await server.client();
    const token = await server.token(revoked);
    const act = () => server.command('client', 'revoke', revoked.id);

    expect(await cutOff(bearer(token), act)).toEqual(atOnce);

    const renewed = await server.post('/api/oauth/token', {
      grant_type: 'client_credentials',
      client_id: revoked.id,
      client_secret: revoked.secret,
    });
    expect(renewed.status).toBe(401);
    expect(renewed.json['error']).toBe('invalid_client');
  });

  test('46: when its key is revoked on the command line, while another key keeps working', async () => {
    const old = await server.key();
    const rotated = await server.key();
    const other = await server.stream({ 'X-API-Key': rotated.key });
    const act = () => server.command('key', 'revoke', old.id);

    expect(await cutOff({ 'X-API-Key': old.key }, act)).toEqual(atOnce);
    expect((await server.call(bearer(old.key))).status).toBe(401);
    expect((await server.call({ 'X-API-Key': rotated.key })).status).toBe(200);
    expect(server.upstream.openStreams()).toBe(1);
    await other.body?.cancel();
  });
});

test('46: revocation: a second one on the command line is an error that says so', async () => {
  const { id } = await server.key();
  await server.command('key', 'revoke', id);

  await expect(server.command('key', 'revoke', id)).rejects.toThrow('there is no active key');
});

const atOnce = { streamed: 200, next: 401 };

/** Opens a stream and does what must end it. Returns once it has ended, here and at the upstream. */
async function cutOff(credential: Credential, act: () => Promise<unknown>) {
  const before = server.upstream.openStreams();
  const stream = await server.stream(credential);
  const reader = stream.body?.getReader();
  const first = await reader?.read();
  expect(first?.value?.length).toBeGreaterThan(0);
  expect(server.upstream.openStreams()).toBe(before + 1);
  const ended = (async () => {
    while (!(await reader?.read())?.done);
  })().catch(() => undefined);

  await act();
  const answer = await server.call(credential);
  await ended;
  await expect.poll(() => server.upstream.openStreams(), patient).toBe(before);
  return { streamed: stream.status, next: answer.status };
}
