import { once } from 'node:events';
import { createServer } from 'node:http';

import { pkcePair } from '#support/authorization-server';
import { redirectUri } from './furnished-server.ts';
import type { Scene } from './scene.ts';

/** The consent page for a site and for a program of this computer, and what it leaves behind. */
export const consentScenes: Scene = async ({ dana, furnished, album }) => {
  const { page } = dana;
  const { base } = furnished.server;
  const { challenge, verifier } = pkcePair();
  const ask = (
    redirect: string,
    clientId = furnished.clientId,
    more: Readonly<Record<string, string>> = {},
  ) =>
    page.goto(
      `${base}/oauth/consent?${new URLSearchParams({
        client_id: clientId,
        response_type: 'code',
        redirect_uri: redirect,
        code_challenge: challenge,
        code_challenge_method: 'S256',
        state: 'state',
        ...more,
      }).toString()}`,
    );
  await ask('http://127.0.0.1:49152/callback');
  await album.take(page, 'consent-loopback');
  await ask('http://127.0.0.1:49152/callback', `${base}/oauth/clients/latchkey.json`, {
    resource: `${base}/mcp/acme/warehouse`,
    assistant: 'Claude Desktop',
  });
  await album.take(page, 'consent-assistant');
  await ask(redirectUri);
  await album.take(page, 'consent-site');
  await ask('https://elsewhere.example/callback');
  await album.take(page, 'error-consent-redirect');
  await ask(redirectUri, 'client_000000000000000000000000');
  await album.take(page, 'error-consent-client');

  // An application that answers: the browser follows the redirect to it.
  const application = createServer((_request, response) => response.end('Connected.'));
  application.listen(0, '127.0.0.1');
  await once(application, 'listening');
  const address = application.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const callback = `http://127.0.0.1:${port}/callback`;
  await ask(callback);
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.waitForURL(`${callback}?**`);
  const { searchParams } = new URL(page.url());
  application.close();
  application.closeAllConnections();
  const answer = await fetch(`${base}/api/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: searchParams.get('code') ?? '',
      code_verifier: verifier,
      client_id: furnished.clientId,
      redirect_uri: callback,
    }),
  });
  if (!answer.ok) throw new Error(await answer.text());
};
