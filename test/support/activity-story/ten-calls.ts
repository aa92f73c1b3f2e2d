import { join } from 'node:path';
import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { vi } from 'vitest';

import { mcpCall, rpc } from '../mcp-call.ts';
import { patient } from '../patient.ts';
import { runProgram } from '../processes.ts';
import { inherited } from '../programs.ts';
import { launcher } from '../proxy-process.ts';
import type { StoryPlace, Way } from './story-place.ts';

const inspector = join(import.meta.dirname, '../../../node_modules/.bin/mcp-inspector');

/** Why the call of `crashing` failed. An MCP server over HTTP answers 500; one over stdio exits. */
const crashes: Readonly<Record<Way, string>> = {
  http: 'upstream_server_error',
  agent: 'upstream_server_error',
  stdio: 'upstream_broke_off',
  'agent with a child': 'upstream_broke_off',
};

/**
 * The records of the ten calls, in the order in which `tenCalls` makes them: era, person, credential, application, tool,
 * outcome and error.
 */
export const tenRows = (way: Way) => [
  ['legacy', 'dana@example.com', 'Story app', 'Elder 1.0', 'echo', 'ok', null],
  ['legacy', 'dana@example.com', 'Story app', 'Elder 1.0', 'failing', 'tool_error', null],
  ['legacy', 'dana@example.com', 'Story app', 'curl/8.5', 'slow', 'cancelled', null],
  ['modern', null, 'laptop', 'Younger 2.0', 'echo', 'ok', null],
  ['modern', null, 'laptop', 'Younger 2.0', 'missing', 'protocol_error', '-32602'],
  ['modern', null, 'laptop', 'Younger 2.0', 'slow', 'cancelled', null],
  ['legacy', null, 'laptop', 'inspector-cli 2.12.0', 'echo', 'ok', null],
  ['legacy', null, 'laptop', 'Desk 3.0', 'echo', 'ok', null],
  ['legacy', null, 'reader', 'curl/8.5', 'echo', 'refused', 'insufficient_scope'],
  ['legacy', null, 'laptop', 'curl/8.5', 'crashing', 'upstream_error', crashes[way]],
];

/**
 * Makes ten calls with third-party programs: both generations of the SDK, the command line of the Inspector, an assistant
 * over stdio through the proxy, and plain requests. The calls run one after the other, so that their rows are in this order.
 */
export async function tenCalls(place: StoryPlace): Promise<void> {
  const { endpoint, token, keys } = place;
  const apiKey = { 'x-api-key': keys.laptop };
  const url = new URL(endpoint);

  const elder = new Client({ name: 'Elder', version: '1.0' });
  const bearer = { headers: { authorization: `Bearer ${token}` } };
  await elder.connect(new StreamableHTTPClientTransport(url, { requestInit: bearer }));
  await elder.callTool({ name: 'echo', arguments: {} });
  await elder.callTool({ name: 'failing', arguments: {} });
  await elder.close();
  const curl = { 'user-agent': 'curl/8.5' };
  const slow = rpc('tools/call', { name: 'slow' }, 77);
  await givenUp(place, mcpCall(endpoint, { token, body: slow, headers: curl }), () => {
    const body = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`;
    return mcpCall(endpoint, { token, body, headers: curl });
  });

  const younger = new ModernClient(
    { name: 'Younger', version: '2.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  await younger.connect(new ModernTransport(url, { requestInit: { headers: apiKey } }));
  await younger.callTool({ name: 'echo', arguments: {} });
  await younger.callTool({ name: 'missing', arguments: {} }).catch(() => undefined);
  const left = new AbortController();
  const calling = younger.callTool({ name: 'slow' }, { signal: left.signal });
  await givenUp(place, calling, async () => left.abort());
  await younger.close();

  const header = ['--header', `x-api-key: ${keys.laptop}`];
  const call = ['--method', 'tools/call', '--tool-name', 'echo'];
  const { code, stdout, stderr } = await runProgram(inspector, {
    args: [
      '--cli',
      '-q',
      '--format',
      'json',
      ...call,
      '--transport',
      'http',
      '--server-url',
      endpoint,
      ...header,
    ],
    timeoutMs: 60_000,
  });
  if (code !== 0) throw new Error(`the Inspector ended with ${code}: ${stdout}${stderr}`);

  const desk = new Client({ name: 'Desk', version: '3.0' });
  await desk.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [launcher, endpoint],
      env: { ...inherited, LATCHKEY_API_KEY: keys.laptop },
      stderr: 'ignore',
    }),
  );
  await desk.callTool({ name: 'echo', arguments: {} });
  await desk.close();

  const plain = (key: string, name: string) =>
    mcpCall(endpoint, { key, body: rpc('tools/call', { name, arguments: {} }), headers: curl });
  await plain(keys.reader, 'echo');
  await plain(keys.laptop, 'crashing');
}

/** Cancels a call of the tool `slow` as soon as it has reached the MCP server, and waits until it is recorded. */
async function givenUp(
  { received, stores }: StoryPlace,
  calling: Promise<unknown>,
  cancel: () => Promise<unknown>,
): Promise<void> {
  const ended = calling.catch(() => undefined);
  const rowsBefore = await slowRows(stores);
  await vi.waitFor(() => {
    if (count(received(), '"slow"') === rowsBefore) throw new Error('the call has not arrived');
  }, patient);
  await cancel();
  await ended;
  await vi.waitFor(async () => {
    if ((await slowRows(stores)) === rowsBefore) throw new Error('the call has not ended');
  }, patient);
}

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}

async function slowRows({ db }: StoryPlace['stores']): Promise<number> {
  const rows = await db
    .selectFrom('call_record')
    .select('id')
    .where('subject', '=', 'slow')
    .execute();
  return rows.length;
}

/** All call records, oldest first, in the form of `tenRows`. */
export async function rowsOf({ db }: StoryPlace['stores']) {
  const rows = await db.selectFrom('call_record').selectAll().orderBy('started_at_ms').execute();
  return rows.map((row) => [
    row.era,
    row.person_name,
    row.credential_name,
    row.application,
    row.subject,
    row.outcome,
    row.error,
  ]);
}
