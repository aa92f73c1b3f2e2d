import { createServer } from 'node:http';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { assertionIssuer } from '#support/assertion-issuer';
import { listen } from '#support/loopback';
import { vouchingCompany, type VouchingCompany } from '#support/vouching-company';

let company: VouchingCompany;
const hosts = ['--outbound-host', '127.0.0.1'];
beforeAll(async () => {
  company = await vouchingCompany();
});
afterAll(() => company[Symbol.asyncDispose]());

const refused = { status: 400, body: { error: 'invalid_grant' } };
const at = (path: string) => `${company.server.base}/mcp/${path}`;
const accepted = async (...asked: Parameters<VouchingCompany['exchange']>) => {
  const { status, body } = await company.exchange(...asked);
  expect([status, body.error]).toEqual([200, undefined]);
  return body.access_token ?? '';
};
const asOther = () => ({
  client_id: company.otherClient.id,
  client_secret: company.otherClient.secret,
});

describe('154: identity assertion: an issuer counts in the organization that configured it, and nowhere else', () => {
  test('154: an issuer that no organization configured is not even asked for its keys', async () => {
    await using stranger = await assertionIssuer();
    const text = await company.assertion();
    const claims = { ...claimsOf(text), iss: stranger.issuer };
    const forged = await stranger.sign({ claims, header: { typ: 'oauth-id-jag+jwt' } });

    expect(await company.exchange(forged)).toEqual(refused);
    expect(stranger.reads()).toBe(0);
  });

  test('154: the issuer of another organization vouches for no one here, not even for its own members', async () => {
    const text = await company.assertion({ claims: { iss: company.otherId.issuer } });
    const signed = await company.otherId.sign({
      claims: claimsOf(text),
      header: { typ: 'oauth-id-jag+jwt' },
    });

    expect(await company.exchange(signed)).toEqual(refused);
    expect(await company.exchange(signed, asOther())).toEqual(refused);
  });

  test('154: the same issuer in another organization does not vouch for members of this one', async () => {
    const { server, id } = company;
    await server.command(['organization', 'create', 'third']);
    await server.command(['server', 'create', 'third/sales', '--demo']);
    const words = ['provider', 'create', 'third', '--name', 'ID', '--issuer', id.issuer];
    const made = await server.command([...words, ...hosts, '--json']);
    const { id: provider } = z.object({ id: z.string() }).parse(JSON.parse(made));
    await server.command(['provider', 'assertions', 'third', provider, '--allow', 'yes']);
    const resource = at('third/sales');

    expect(await company.exchange(await company.assertion({ claims: { resource } }))).toMatchObject(
      {
        body: { error: 'unauthorized_client' },
      },
    );
  });
});

test('155: identity assertion: of forty concurrent exchanges, wherever they arrive, one succeeds', async () => {
  const text = await company.assertion();
  const all = await Promise.all(Array.from({ length: 40 }, () => company.exchange(text)));

  expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(all.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(39);
  expect(await company.exchange(text)).toEqual(refused);
});

test.each<[string, (base: string) => unknown]>([
  ['another authorization server', () => 'https://latchkey.example'],
  ['the server as a resource', (base) => `${base}/mcp/acme/sales`],
  ['two audiences, one of which is right', (base) => [base, 'https://latchkey.example']],
  ['the name of the right one below another', (base) => `https://evil.example/${base}`],
])('156: identity assertion: one for %s is refused', async (_, aud) => {
  const claims = { aud: aud(company.server.base) };

  expect(await company.exchange(await company.assertion({ claims }))).toEqual(refused);
});

describe('157: identity assertion: the token is for the one server that provider, client and request agree on', () => {
  test('157: a token for one server opens no other', async () => {
    const token = await accepted(await company.assertion());

    expect(await company.call(token)).toBe(200);
    expect(await company.call(token, 'acme/wiki')).toBe(401);
    expect(await company.call(token, 'other/sales')).toBe(401);
  });

  test('157: the request can choose only among the resources of the assertion', async () => {
    const several = { resource: [at('acme/sales'), at('other/sales')] };
    const ask = async (resource: string) =>
      company.exchange(await company.assertion({ claims: several }), { resource });

    expect(await ask(at('acme/wiki'))).toEqual(refused);
    expect(await ask(at('other/sales'))).toEqual(refused);
    expect(await ask(at('acme/sales'))).toMatchObject({ status: 200 });
    expect(await company.exchange(await company.assertion({ claims: several }))).toEqual(refused);
  });
});

test.each<[string, Record<string, unknown>]>([
  ['none', { alg: 'none' }],
  ['HS256', { alg: 'HS256' }],
  ['an algorithm of another kind of key', { alg: 'RS256' }],
  ['an algorithm that does not exist', { alg: 'ES256K' }],
])('158: identity assertion: the algorithm %s does not verify', async (_, header) => {
  const [, ...rest] = (await company.assertion()).split('.');
  const { kid } = company.id.jwks.keys[0] ?? {};
  const changed = { typ: 'oauth-id-jag+jwt', kid, ...header };
  const head = Buffer.from(JSON.stringify(changed)).toString('base64url');

  expect(await company.exchange([head, ...rest].join('.'))).toEqual(refused);
});

test('158: identity assertion: a symmetric key that the issuer publishes by mistake verifies nothing', async () => {
  const secret = new TextEncoder().encode('a secret of thirty-two characters');
  const text = await company.assertion({ header: { alg: 'HS256' } }, secret);

  expect(await company.exchange(text)).toEqual(refused);
});

describe('159: keys of an issuer: a private address is refused, unless the operator named it', () => {
  test('159: an organization can enter none', async () => {
    const { server, providerId } = company;
    const change = ['provider', 'assertions', 'acme', providerId];
    const workload = ['workload', 'create', 'acme', '--name', 'CI', '--subject', 'x'];

    await expect(
      server.command([...change, '--keys-url', 'https://10.0.0.1/keys']),
    ).rejects.toThrow('is not on the public internet');
    await expect(
      server.command([...workload, '--issuer', 'https://169.254.169.254']),
    ).rejects.toThrow('is not on the public internet');
    await expect(server.command([...workload, '--issuer', 'http://ci.example'])).rejects.toThrow(
      'is not an https URL',
    );
  });

  test('159: the configuration of an issuer cannot lead there', async () => {
    let reads = 0;
    const inside = createServer((_, response) => {
      reads += 1;
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(issuer.jwks));
    });
    await using issuer = await assertionIssuer();
    issuer.publishAt(`http://127.0.0.2:${await listen(inside, '127.0.0.2')}/keys`);
    const words = ['provider', 'create', 'acme', '--name', 'In', '--issuer', issuer.issuer];
    const made = await company.server.command([...words, ...hosts, '--json']);
    const { id } = z.object({ id: z.string() }).parse(JSON.parse(made));
    await company.server.command(['provider', 'assertions', 'acme', id, '--allow', 'yes']);
    const claims = { ...claimsOf(await company.assertion()), iss: issuer.issuer };
    const text = await issuer.sign({ claims, header: { typ: 'oauth-id-jag+jwt' } });
    const answer = await company.exchange(text);
    inside.close();
    inside.closeAllConnections();

    expect(answer).toEqual(refused);
    expect(reads).toBe(0);
  });
});

describe('160: identity assertion: an address links a person only as it does at a sign-in', () => {
  test.each<[string, Record<string, unknown>]>([
    ['an address that the provider calls unverified', { email_verified: false }],
    ['an address without email_verified', { email_verified: undefined }],
    ['email_verified as text', { email_verified: 'true' }],
    ['an address of a domain of another organization', { email: 'eve@other.example' }],
    ['no address', { email: undefined }],
  ])('160: %s links no one', async (_, claims) => {
    const text = await company.assertion({ claims: { sub: 'attacker', ...claims } });

    expect(await company.exchange(text)).toEqual(refused);
  });

  test('160: an address of a person who is linked opens nothing for another account', async () => {
    await accepted(await company.assertion());
    const text = await company.assertion({ claims: { sub: 'next dana' } });

    expect(await company.exchange(text)).toEqual(refused);
  });
});

describe('161: identity assertion: a client uses only those that are for it', () => {
  test('161: another client of the organization cannot use it', async () => {
    const words = ['client', 'create-for-organization', 'acme', '--name', 'Second', '--json'];
    const made = z
      .object({ client_id: z.string(), client_secret: z.string() })
      .parse(JSON.parse(await company.server.command(words)));
    const text = await company.assertion();
    const asSecond = { client_id: made.client_id, client_secret: made.client_secret };

    expect(await company.exchange(text, asSecond)).toEqual(refused);
    await accepted(text);
  });

  test('161: it does not replace the secret of the client', async () => {
    const text = await company.assertion();

    expect(await company.exchange(text, { client_secret: undefined })).toEqual({
      status: 401,
      body: { error: 'invalid_client' },
    });
    await accepted(text);
  });
});

describe('162: an issuer says who people are, or which workload calls, and never both', () => {
  const words = (issuer: string) => [
    'workload',
    'create',
    'acme',
    '--name',
    'CI',
    '--subject',
    'dana there',
    '--issuer',
    issuer,
  ];

  test('162: the issuer of a provider cannot become one of workloads', async () => {
    await expect(company.server.command([...words(company.id.issuer), ...hosts])).rejects.toThrow(
      'is the issuer of an identity provider',
    );
  });

  test('162: the issuer of workloads cannot become a provider, and its tokens are no identity assertions', async () => {
    await using ci = await assertionIssuer();
    await company.server.command([...words(ci.issuer), ...hosts]);
    const provider = ['provider', 'create', 'acme', '--name', 'X', '--issuer', ci.issuer];
    await expect(company.server.command([...provider, ...hosts])).rejects.toThrow(
      'is the issuer of workloads',
    );
    const claims = { ...claimsOf(await company.assertion()), iss: ci.issuer };
    const none = { client_id: undefined, client_secret: undefined };
    const resource = { resource: at('acme/sales') };
    const token = await ci.sign({ claims });

    expect(await company.exchange(token, { ...none, ...resource })).toMatchObject({ status: 200 });
    const asAssertion = await ci.sign({ claims, header: { typ: 'oauth-id-jag+jwt' } });
    expect(await company.exchange(asAssertion)).toEqual(refused);
  });

  test('162: an identity assertion without its type is no token of a workload', async () => {
    const text = await company.assertion({ header: { typ: 'JWT' } });
    const none = { client_id: undefined, client_secret: undefined };

    expect(await company.exchange(text, { ...none, resource: at('acme/sales') })).toEqual(refused);
  });
});

test('163: identity assertion: switching assertions off ends every token that came of them', async () => {
  const { server, otherProviderId, otherId } = company;
  const claims = {
    ...claimsOf(await company.assertion()),
    iss: otherId.issuer,
    sub: 'eve there',
    email: 'eve@other.example',
    client_id: company.otherClient.id,
    resource: at('other/sales'),
  };
  const signed = (jti: string) =>
    otherId.sign({ claims: { ...claims, jti }, header: { typ: 'oauth-id-jag+jwt' } });
  const token = await accepted(await signed('one'), asOther());
  expect(await company.call(token, 'other/sales')).toBe(200);
  const change = ['provider', 'assertions', 'other', otherProviderId, '--allow'];
  await server.command([...change, 'no']);

  expect(await company.call(token, 'other/sales')).toBe(401);
  expect(await company.exchange(await signed('two'), asOther())).toEqual(refused);
  await server.command([...change, 'yes']);
  expect(await company.call(token, 'other/sales')).toBe(401);
  await accepted(await signed('three'), asOther());
});

test('163: identity assertion: access that was withdrawn stays refused until it is allowed again', async () => {
  const wiki = { claims: { resource: at('acme/wiki') } };
  const token = await accepted(await company.assertion(wiki));
  const list = ['consent', 'list', 'acme', '--json'];
  const consent = z.object({ id: z.string(), server: z.string(), client: z.string() });
  const all = z.array(consent).parse(JSON.parse(await company.server.command(list)));
  const { id = '' } = all.find(({ server }) => server === 'acme/wiki') ?? {};
  await company.server.command(['consent', 'withdraw', 'acme', id]);

  expect(await company.call(token, 'acme/wiki')).toBe(401);
  expect(await company.exchange(await company.assertion(wiki))).toEqual(refused);
  await company.server.command(['consent', 'allow', 'acme', id]);
  await accepted(await company.assertion(wiki));
});

function claimsOf(text: string): Record<string, unknown> {
  return z
    .record(z.string(), z.unknown())
    .parse(JSON.parse(Buffer.from(text.split('.')[1] ?? '', 'base64url').toString('utf8')));
}
