import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { Provider } from 'oidc-provider';
import type { Page } from 'playwright-core';

import { freePort } from './loopback.ts';
import { consentAt } from './provider-consent.ts';
import { serverProcess, type ServerProcess } from './server-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

const secret = 'the secret of latchkey there';

export interface SingleSignOnOptions {
  /** The claims about a person in the ID token and in userinfo; by default a verified address, in userinfo. */
  readonly claims?: (sub: string, use: 'id_token' | 'userinfo') => Record<string, unknown>;
  /** Whether the provider accepts authorization requests only if the server has pushed them. RFC 9126 */
  readonly requiresPushedRequests?: boolean;
  /** Adds providers of organizations with the same client, and returns their redirect URIs. */
  readonly addProvider?: (
    server: ServerProcess,
    at: { readonly issuer: string; readonly secretFile: string },
  ) => Promise<readonly string[]>;
  /** The path of the server to which the provider sends logouts; without it, the provider sends none. */
  readonly logoutPath?: () => string;
  /** More options of the server. */
  readonly args?: readonly string[];
}

/** A server beside an independent OpenID provider, Acme ID, which accepts any name that a person enters there. */
export interface SingleSignOn extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly issuer: string;
  /** Signs in on the provider's own pages, as `{name}@example.com`. */
  vouch(page: Page, name: string): Promise<void>;
  /** Signs in without a browser, from the page to which the server redirects; the URL to which the provider redirects back. */
  consent(page: string, name: string): Promise<URL>;
}

export async function singleSignOn({
  claims,
  requiresPushedRequests = false,
  args = [],
  addProvider,
  logoutPath,
}: SingleSignOnOptions = {}): Promise<SingleSignOn> {
  const folder = await temporaryFolder('sso');
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  const file = join(folder.path, 'secret');
  writeFileSync(file, secret);
  const where = ['--oidc-issuer', issuer, '--oidc-client-id', 'latchkey'];
  const rest = ['--oidc-client-secret-file', file, '--oidc-name', 'Acme ID'];
  const server = await serverProcess({ host: 'localhost', args: [...where, ...rest, ...args] });
  const redirectUris = await (addProvider?.(server, { issuer, secretFile: file }) ?? []);
  const oidc = new Provider(issuer, {
    clients: [
      {
        client_id: 'latchkey',
        client_secret: secret,
        redirect_uris: [`${server.base}/sign-in/provider/callback`, ...redirectUris],
        ...(logoutPath && {
          backchannel_logout_uri: server.base + logoutPath(),
          backchannel_logout_session_required: true,
        }),
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    ...(claims && { conformIdTokenClaims: false }),
    fetch(url, asked) {
      // The dispatcher refuses loopback addresses.
      delete asked.dispatcher;
      return fetch(url, asked);
    },
    features: {
      ...(logoutPath && { backchannelLogout: { enabled: true } }),
      ...(requiresPushedRequests && {
        pushedAuthorizationRequests: { enabled: true, requirePushedAuthorizationRequests: true },
      }),
    },
    findAccount: (_ctx, sub) => ({
      accountId: sub,
      claims: (use) => ({
        sub,
        ...(claims?.(sub, use) ?? { email: `${sub}@example.com`, email_verified: true }),
      }),
    }),
  });
  const provider = createServer(oidc.callback()).listen(port, '127.0.0.1');
  return {
    server,
    issuer,
    async vouch(page, name) {
      await page.locator('input[name=login]').fill(name);
      await page.locator('input[name=password]').fill('x');
      await page.locator('button[type=submit]').click();
      await page.getByRole('button', { name: 'Continue' }).click();
    },
    consent: (page, login) => consentAt(page, { issuer, login }),
    async [Symbol.asyncDispose]() {
      provider.closeAllConnections();
      await new Promise((resolve) => provider.close(resolve));
      await server[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}
