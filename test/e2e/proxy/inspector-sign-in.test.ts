import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { allow } from '#support/consenting-person';
import { freePort } from '#support/loopback';
import { startProgram } from '#support/processes';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const inspector = join(import.meta.dirname, '../../../node_modules/.bin/mcp-inspector');
const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };

let server: ServerProcess;
let home: TemporaryFolder;
let port: number;
beforeAll(async () => {
  home = await temporaryFolder('inspector');
  port = await freePort();
  server = await serverProcess({ args: ['--demo', '--dynamic-registration'] });
  const add = ['user', 'create', dana.email, '--organization', 'demo', '--role', 'member'];
  await server.command(add, `${dana.password}\n`);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await home[Symbol.asyncDispose]();
});

/** The Inspector's own command line; it gets the URL, the transport, and a port that is free here. */
const inspect = (...words: string[]) => {
  const url = `${server.base}/mcp/demo/library`;
  const target = ['--cli', url, '--transport', 'http', '--format', 'json'];
  return startProgram(inspector, {
    args: [...target, ...words, '--callback-url', `http://127.0.0.1:${port}/oauth/callback`],
    env: {
      HOME: home.path,
      // Without a terminal it asks a person only where it may open a browser; there is none here.
      MCP_AUTO_OPEN_ENABLED: 'true',
      MCP_INSPECTOR_SECRET_STORE: 'file',
      DISPLAY: undefined,
      BROWSER: undefined,
    },
  });
};

test('MCP Inspector: given only the URL it registers, lets Dana sign in and lists tools', async () => {
  await using listing = inspect('--method', 'tools/list');
  const [address] = await listing.line(/http:\S+\/oauth\/consent\?\S+/, {
    stream: 'stderr',
  });
  const back = await allow(new URL(address), dana);
  const page = await fetch(back);
  const { code } = await listing.exited;

  expect(page.status).toBe(200);
  expect({ code, stderr: listing.stderr }).toMatchObject({ code: 0 });
  expect(listing.stdout).toContain('"query"');
});

test('MCP Inspector: the next run calls a tool with its stored token, without a sign-in', async () => {
  const sql = 'sql=select 41 + 1 as n';
  await using calling = inspect(
    ...'--method tools/call --tool-name query --tool-arg'.split(' '),
    sql,
  );
  const { code } = await calling.exited;

  expect({ code, stderr: calling.stderr }).toMatchObject({ code: 0 });
  expect(calling.stdout).toContain('42');
  expect(calling.stderr).not.toContain('/oauth/consent');
});

test('MCP Inspector: it signs in again when told to', async () => {
  await using listing = inspect('--relogin', '--method', 'tools/list');
  const [address] = await listing.line(/http:\S+\/oauth\/consent\?\S+/, {
    stream: 'stderr',
  });
  await fetch(await allow(new URL(address), dana));
  const { code } = await listing.exited;

  expect({ code, stderr: listing.stderr }).toMatchObject({ code: 0 });
  expect(listing.stdout).toContain('"query"');
});
