import { join } from 'node:path';
import { freePort } from '#support/loopback';
import { runProgram, startProgram, type Program } from '#support/processes';
import { numberHere, type Shot } from './shot.ts';

/** A running authorization server and gateway in the race. */
export interface ServerRacer {
  readonly name: string;
  readonly tokenRequest: Shot;
  readonly toolCall: Shot;
  readonly programs: readonly Program[];
}

const root = join(import.meta.dirname, '../..');
/** The sources, unless `BENCH_LATCHKEY_SERVER` names a folder with the package as it is published. */
const program = join(
  process.env['BENCH_LATCHKEY_SERVER'] ?? join(root, 'server'),
  'bin/latchkey-server.js',
);
const listening = /listening on (http:\/\/\S+)/;

/** The call that loads every contender. */
export const toolCall = `{"jsonrpc":"2.0","id":${numberHere},"method":"tools/call","params":{"name":"json","arguments":{"text":"hello"}}}`;

/** A request for an access token by client credentials. */
export function tokenRequest(base: string, client: { id: string; secret: string }): Shot {
  return {
    url: `${base}/api/oauth/token`,
    headers: formType,
    body: tokenBody(client.id, client.secret),
  };
}

function tokenBody(clientId: string, clientSecret: string): string {
  const form = { grant_type: 'client_credentials', client_id: clientId };
  return new URLSearchParams({ ...form, client_secret: clientSecret }).toString();
}

const formType = { 'content-type': 'application/x-www-form-urlencoded' };
const jsonType = { 'content-type': 'application/json' };

/** A running `latchkey-server` with a folder of its own and the organization `bench`, and its commands. */
export async function latchkeyProcess(folder: string, args: readonly string[] = []) {
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const env = { LATCHKEY_DATA_DIR: join(folder, 'server') };
  const command = async (...words: string[]): Promise<Record<string, string>> => {
    const { code, stdout, stderr } = await runProgram(process.execPath, {
      args: [program, ...words, '--json'],
      env,
    });
    if (code !== 0) throw new Error(`latchkey-server ${words.join(' ')}: ${stderr}`);
    return JSON.parse(stdout);
  };
  // `start` declares the servers that run a command, and their organization must exist by then.
  await command('organization', 'create', 'bench');
  const server = startProgram(process.execPath, {
    args: [program, 'start', '--port', String(port), '--base-url', base, ...args],
    env,
  });
  try {
    await server.line(listening, { timeoutMs: 60_000 });
  } catch (error) {
    await server.end();
    throw error;
  }
  return { base, server, command };
}

/** Ours: its own server, client and key are made by the commands an operator uses. */
export async function latchkeyServer(
  targetOrigin: string,
  folder: string,
  { args = [], path = '/mcp' }: { readonly args?: readonly string[]; readonly path?: string } = {},
): Promise<ServerRacer> {
  const { base, server, command } = await latchkeyProcess(folder, args);
  try {
    await command('server', 'create', 'bench/target', '--http-url', `${targetOrigin}${path}`);
    const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
    const client = await command('client', 'create', 'bench/target', '--name', 'bench', ...scopes);
    const key = await command('key', 'create', 'bench/target', '--name', 'bench');
    return {
      name: 'latchkey-server',
      tokenRequest: tokenRequest(base, {
        id: client['client_id'] ?? '',
        secret: client['client_secret'] ?? '',
      }),
      toolCall: {
        url: `${base}/mcp/bench/target`,
        headers: { ...jsonType, 'x-api-key': key['key'] ?? '' },
        body: toolCall,
      },
      programs: [server],
    };
  } catch (error) {
    await server.end();
    throw error;
  }
}
