import { expect, test } from 'vitest';
import { clientMetadataDocument } from '#proxy/auth/client-registration';
import { web, type Page } from '#support/web';

const issuer = 'https://cloud.example.com';
const clientId = `${issuer}/oauth/clients/latchkey.json`;
const redirect_uris = ['https://x/cb', 'http://127.0.0.1/callback', 'http://localhost/callback'];
const discovery = { issuer, within: 'public' } as const;

async function found(page: Page) {
  const { http, asked } = web({ [clientId]: page });
  return { document: await clientMetadataDocument(discovery, http), asked: asked() };
}

test('client metadata document: the server’s own document provides client id and redirect, announced or not', async () => {
  const { document, asked } = await found({ json: { client_id: clientId, redirect_uris } });

  expect(document).toEqual({ clientId, redirectHost: '127.0.0.1', redirectPath: '/callback' });
  expect(asked).toHaveLength(1);
});

test.each<[string, Page]>([
  ['is not there', { status: 404 }],
  ['cannot be had', { status: 0 }],
  ['calls itself something else', { json: { client_id: `${issuer}/other`, redirect_uris } }],
  ['redirects elsewhere', { json: { client_id: clientId, redirect_uris: ['https://x/cb'] } }],
  ['has no list', { json: { client_id: clientId, redirect_uris: 'http://127.0.0.1/callback' } }],
])('client metadata document: a document that %s is ignored', async (_, page) => {
  expect((await found(page)).document).toBeUndefined();
});
