import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { Provider } from 'oidc-provider';
import type { Page } from 'playwright-core';

import { freePort } from './loopback.ts';
import { serverProcess, type ServerProcess } from './server-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

const secret = 'the secret of latchkey there';

/** A server beside an independent OpenID provider, Acme ID, which vouches for whatever name somebody types there. */
export interface SingleSignOn extends AsyncDisposable {
  readonly server: ServerProcess;
  /** Signs in on the provider's own pages, as `{name}@example.com`. */
  vouch(page: Page, name: string): Promise<void>;
}

export async function singleSignOn(): Promise<SingleSignOn> {
  const folder = await temporaryFolder('sso');
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  const file = join(folder.path, 'secret');
  writeFileSync(file, secret);
  const where = ['--oidc-issuer', issuer, '--oidc-client-id', 'latchkey'];
  const rest = ['--oidc-client-secret-file', file, '--oidc-name', 'Acme ID'];
  const server = await serverProcess({ host: 'localhost', args: [...where, ...rest] });
  const oidc = new Provider(issuer, {
    clients: [
      {
        client_id: 'latchkey',
        client_secret: secret,
        redirect_uris: [`${server.base}/sign-in/provider/callback`],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    findAccount: (_ctx, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: `${sub}@example.com`, email_verified: true }),
    }),
  });
  const provider = createServer(oidc.callback()).listen(port, '127.0.0.1');
  return {
    server,
    async vouch(page, name) {
      await page.locator('input[name=login]').fill(name);
      await page.locator('input[name=password]').fill('x');
      await page.locator('button[type=submit]').click();
      await page.getByRole('button', { name: 'Continue' }).click();
    },
    async [Symbol.asyncDispose]() {
      provider.closeAllConnections();
      await new Promise((resolve) => provider.close(resolve));
      await server[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}
