/**
 * The reference server, which knows nothing of 2026-07-28, as a command of the gateway's machine: through the gateway,
 * an assistant of the modern era finds what it finds when it asks the server directly, in the older era.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { everything } from '#support/reference-itineraries';
import { runCommandInProcess } from '#support/run-command-in-process';
import { runningServer, type RunningServer } from '#support/running-server';
import { common, modernSurvey } from '#support/server-survey';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const script = join(
  import.meta.dirname,
  '../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);
const command = { command: process.execPath, args: [script, 'stdio'] };
const stack = new AsyncDisposableStack();
let server: RunningServer;

beforeAll(async () => {
  const { path: dataDir } = stack.use(await temporaryFolder('everything'));
  const file = join(dataDir, 'stdio.json');
  await writeFile(file, JSON.stringify({ servers: { 'acme/everything': command } }), {
    mode: 0o600,
  });
  await runCommandInProcess(['organization', 'create', 'acme', '--data-dir', dataDir]);
  server = stack.use(await runningServer({ dataDir, args: ['--stdio-servers', file] }));
});
afterAll(() => stack.disposeAsync());

const made = z.object({ key: z.string() });
async function throughGateway() {
  const words = ['key', 'create', 'acme/everything', '--name', 'k'];
  const { key } = made.parse(await server.command(...words));
  return new StreamableHTTPClientTransport(new URL(`${server.base}/mcp/acme/everything`), {
    requestInit: { headers: { 'x-api-key': key } },
  });
}

/** Each child has its own environment, so the answers of `get-env` differ. */
const itinerary = {
  ...everything,
  tools: everything.tools.filter(({ name }) => name !== 'get-env'),
};
test('modern assistant, MCP reference server: tools, resources, prompts and elicitation work', async () => {
  const direct = await modernSurvey(new StdioClientTransport(command), itinerary);
  const through = await modernSurvey(await throughGateway(), itinerary);

  expect(common(through)).toEqual(common(direct));
  expect(direct['asked']).toHaveLength(3);
});

test('modern assistant, MCP reference server: an update of a subscribed resource arrives', async () => {
  const client = new Client(
    { name: 'modern', version: '1' },
    { versionNegotiation: { mode: 'auto' } },
  );
  await client.connect(await throughGateway());
  const updated = vi.fn();
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    updated(params.uri);
  });
  const uri = 'demo://resource/dynamic/text/1';

  const { honoredFilter } = await client.listen({ resourceSubscriptions: [uri] });
  await client.callTool({ name: 'toggle-subscriber-updates' });

  await vi.waitFor(() => expect(updated).toHaveBeenCalledWith(uri), patient);
  expect(honoredFilter).toEqual({ resourceSubscriptions: [uri] });
  await client.close();
});
