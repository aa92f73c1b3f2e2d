import { expect, test } from 'vitest';

import { OutboundError } from '#server/outbound/checked-addresses';
import type { GuardedRequest } from '#server/outbound/guarded-fetch';
import type { ServerMetadata } from '#server/model/authorization-server';
import { registerClient } from '#server/upstreams/credentials/setup';

const issuer = 'https://as.example';
const base = 'https://latchkey.example';
const server = { organization: 'acme', name: 'crm' };
const endpoint = `${issuer}/register`;
const metadata = (but: Partial<ServerMetadata> = {}): ServerMetadata => ({
  issuer,
  token_endpoint: `${issuer}/token`,
  ...but,
});
const redirectUri = `${base}/dashboard/acme/servers/crm/account/callback`;
const given = { client_id: 'c1', client_secret: 's1', client_secret_expires_at: 0 };

/** Registers us at a server that answers with `answer`; the client, and the requests that the server got. */
async function introduced(
  about: ServerMetadata,
  answer: () => Response = () => Response.json(given, { status: 201 }),
  from = base,
) {
  const asked: { url: string; request: GuardedRequest | undefined }[] = [];
  const fetch = async (url: string, request?: GuardedRequest) => {
    asked.push({ url, request });
    return answer();
  };
  const client = await registerClient(
    { metadata: about, scopes: ['read', 'write'], server },
    { base: from, fetch },
  );
  return { client, asked };
}

test('what undoes the registration is stored, and useless members are not', async () => {
  const url = `${issuer}/register/c1`;
  const about = metadata({ registration_endpoint: endpoint });
  const undone = async (but: object) => {
    const more = { registration_client_uri: url, registration_access_token: 'r1', ...but };
    const answer = () => Response.json({ ...given, ...more }, { status: 201 });
    return (await introduced(about, answer)).client.registration;
  };

  expect(await undone({})).toEqual({ url, accessToken: 'r1' });
  for (const but of [
    { registration_access_token: undefined },
    { registration_access_token: 'a\r\nb' },
    { registration_client_uri: undefined },
    { registration_client_uri: 'http://as.example/register/c1' },
    { registration_client_uri: 'file:///etc/passwd' },
  ]) {
    expect(await undone(but)).toBeUndefined();
  }
});

test('the URL of our metadata document comes before a registration', async () => {
  const about = metadata({
    registration_endpoint: endpoint,
    client_id_metadata_document_supported: true,
  });
  const { client, asked } = await introduced(about);

  const clientId = `${base}/oauth/clients/upstream/acme/crm`;
  expect(client).toEqual({ clientId, clientSecret: undefined });
  expect(asked).toEqual([]);
});

test('on loopback, where no authorization server could read a document, we register', async () => {
  const about = metadata({
    registration_endpoint: endpoint,
    client_id_metadata_document_supported: true,
  });
  const { client } = await introduced(about, undefined, 'http://127.0.0.1:8787');

  expect(client).toEqual({ clientId: 'c1', clientSecret: 's1' });
});

test.each([
  [undefined, 'client_secret_basic', 's1'],
  [['client_secret_post', 'client_secret_basic'], 'client_secret_basic', 's1'],
  [['client_secret_post', 'none'], 'client_secret_post', 's1'],
  [['none'], 'none', undefined],
])(
  'for a server that accepts %s the client authenticates with %s',
  async (methods, method, secret) => {
    const about = metadata({
      registration_endpoint: endpoint,
      token_endpoint_auth_methods_supported: methods,
    });
    const { client, asked } = await introduced(about);

    expect(client).toEqual({ clientId: 'c1', clientSecret: secret });
    expect(asked.map(({ url }) => url)).toEqual([endpoint]);
    expect(JSON.parse(asked[0]?.request?.body ?? '')).toEqual({
      client_name: 'Latchkey',
      client_uri: base,
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      application_type: 'web',
      token_endpoint_auth_method: method,
      scope: 'read write',
    });
  },
);

test.each([
  ['takes neither', metadata(), () => Response.json(given)],
  [
    'knows no proof of ours',
    metadata({ registration_endpoint: endpoint, token_endpoint_auth_methods_supported: ['x'] }),
    () => Response.json(given),
  ],
  ['refuses', undefined, () => Response.json({ error: 'invalid_redirect_uri' }, { status: 400 })],
  ['answers no client', undefined, () => Response.json({ client_secret: 's' }, { status: 201 })],
  ['answers no JSON', undefined, () => new Response('no')],
  ['gives no secret', undefined, () => Response.json({ client_id: 'c' })],
  [
    'registers another kind of client',
    undefined,
    () => Response.json({ ...given, token_endpoint_auth_method: 'client_secret_post' }),
  ],
  [
    'gives a secret that ends',
    undefined,
    () => Response.json({ ...given, client_secret_expires_at: 1_900_000_000 }),
  ],
  ['gives a line break', undefined, () => Response.json({ ...given, client_id: 'c\r\nx' })],
] as const)('at a server that %s an administrator must register', async (_, about, answer) => {
  const wanted = about ?? metadata({ registration_endpoint: endpoint });

  await expect(introduced(wanted, answer)).rejects.toMatchObject({
    code: 'unusable',
    message: expect.stringMatching(/^https:\/\/as\.example .*enter the client ID$/),
  });
});

test.each([
  ['unreachable', () => new Response(null, { status: 503 })],
  [
    'unreachable',
    () => {
      throw new OutboundError('timeout', 'late');
    },
  ],
  [
    'forbidden',
    () => {
      throw new OutboundError('forbidden', 'inside');
    },
  ],
] as const)('a registration that is %s is reported as such', async (code, answer) => {
  const about = metadata({ registration_endpoint: endpoint });

  await expect(introduced(about, answer)).rejects.toMatchObject({ code });
});
