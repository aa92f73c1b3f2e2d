/** A server that dies after it receives a rotated refresh token and before it stores the token. */
import { sql } from 'kysely';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { updateServer } from '#server/db/servers';
import {
  grantingServer,
  hiddenFields,
  type Browser,
  type GrantingServer,
} from '#support/granting-server';
import { mcpCall, rpc } from '#support/mcp-call';
import { runCommandInProcess } from '#support/run-command-in-process';
import { tokenUpstream, type TokenUpstream } from '#support/token-upstream';

const path = '/dashboard/acme/servers/sales/account';

async function setAccess({ dataDir }: GrantingServer, upstream: TokenUpstream): Promise<void> {
  const file = join(dataDir, 'upstream-secret');
  writeFileSync(file, upstream.clientSecret, { mode: 0o600 });
  const client = ['--client-id', upstream.clientId, '--client-secret-file', file];
  const places = ['--issuer', upstream.issuer, '--outbound-host', new URL(upstream.url).host];
  const words = ['server', 'set-access', 'acme/sales', '--per-person', ...client, ...places];
  await runCommandInProcess([...words, '--data-dir', dataDir]);
}

/** Connects an account by consent there, as `login`. */
async function connect(
  { base }: GrantingServer,
  upstream: TokenUpstream,
  who: Browser,
  login: string,
) {
  const headers = { cookie: who.cookie, origin: base };
  const page = await (await fetch(base + path, { headers })).text();
  const body = new URLSearchParams(hiddenFields(page, path));
  const sent = await (await fetch(base + path, { method: 'POST', headers, body })).text();
  const there = (/url=([^"]+)"/.exec(sent)?.[1] ?? '').replaceAll('&amp;', '&');
  const { pathname, search } = await upstream.consent(there, login);
  await fetch(base + pathname + search, { headers, redirect: 'manual' });
}

test('upstream access: a kill before rotated tokens are stored costs that person one new consent', async () => {
  await using server = await grantingServer({ args: ['--outbound-host', '127.0.0.1'] });
  const redirectUris = [`${server.base}${path}/callback`];
  await using upstream = await tokenUpstream({ redirectUris, rotates: true });
  const { url } = upstream;
  const to = { kind: 'http', url, publicOnly: true } as const;
  await updateServer(server.stores.db, 'srv_sales', { upstream: to });
  await setAccess(server, upstream);
  const [dana, eve] = [await server.browser(), await server.browser()];
  const tokens = [(await server.signIn(dana)).accessToken, (await server.signIn(eve)).accessToken];
  const whoami = (token = '') =>
    mcpCall(`${server.base}/mcp/acme/sales`, {
      token,
      body: rpc('tools/call', { name: 'whoami', arguments: {} }),
    });
  await connect(server, upstream, eve, 'eve-there');
  await connect(server, upstream, dana, 'dana-there');
  await whoami(tokens[0]);
  const danas = upstream.seen.at(-1)?.authorization?.replace('Bearer ', '') ?? '';

  upstream.refuse(danas);
  upstream.beforeAnswer(() => server.killed());
  await expect(whoami(tokens[0])).rejects.toThrow('fetch failed');
  await server.again();
  // As if the half minute had passed for which the dead server had claimed the renewal.
  await sql`update upstream_connection set claimed_until = 0`.execute(server.stores.db);
  const before = upstream.asked.length;
  const lost = [await whoami(tokens[0]), await whoami(tokens[0])];
  const others = await whoami(tokens[1]);
  const tries = upstream.asked.slice(before).filter(({ body }) => body.includes('refresh_token'));
  await connect(server, upstream, dana, 'dana-there');
  const anew = await whoami(tokens[0]);

  // The token that was lost with the process is refused together with the one that was used twice.
  expect(tries.map(({ answer }) => answer)).toEqual([expect.stringContaining('invalid_grant')]);
  for (const { text } of lost) expect(text).toContain(`open ${server.base}${path}`);
  expect(others.text).toContain('you are eve-there');
  expect(anew.text).toContain('you are dana-there');
});
