import { join } from 'node:path';

import { freePort } from './loopback.ts';
import { runProgram, startProgram } from './processes.ts';
import { temporaryFolder } from './temporary-folder.ts';

const launcher = join(import.meta.dirname, '../../server/bin/latchkey-server.js');

export interface GatewayOptions {
  /** Where the calls of `acme/fixture` go. */
  readonly upstreamUrl: string;
  /** More words for `start`. */
  readonly start?: readonly string[];
}

/** The real server with the endpoint `acme/fixture` and one key for it, all made by real commands. */
export interface GatewayUnderTest extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly base: string;
  readonly port: number;
  readonly pid: number;
  readonly endpoint: string;
  readonly dataDir: string;
  readonly key: string;
  /** Runs an administrative command beside the server; what its `--json` printed. */
  readonly command: (...words: string[]) => Promise<Record<string, unknown>>;
  /** A new `mcp_` key of a server. */
  readonly newKey: (path: string, ...words: string[]) => Promise<{ id: string; key: string }>;
  /** An access token of a new client of a server. */
  readonly newToken: (path: string, ...scopes: string[]) => Promise<string>;
  /** What the server has written to its log. */
  readonly log: () => string;
}

export async function gatewayUnderTest({
  upstreamUrl,
  start = [],
}: GatewayOptions): Promise<GatewayUnderTest> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const { path: dataDir } = stack.use(await temporaryFolder('gateway'));
  const command = (...words: string[]) => administer(dataDir, words);
  const newKey = async (path: string, ...words: string[]) => {
    const made = await command('key', 'create', path, '--name', 'a key', ...words);
    return { id: String(made['id']), key: String(made['key']) };
  };
  await command('organization', 'create', 'acme');
  await command('server', 'create', 'acme/fixture', '--http-url', upstreamUrl);
  const { key } = await newKey('acme/fixture');

  const port = await freePort();
  const args = [launcher, 'start', '--port', String(port), '--data-dir', dataDir, ...start];
  const program = stack.use(startProgram(process.execPath, { args }));
  await program.line(/^listening on /m);
  const base = `http://127.0.0.1:${port}`;
  const newToken = async (path: string, ...scopes: string[]) => {
    const options = scopes.flatMap((scope) => ['--scope', scope]);
    const made = await command('client', 'create', path, '--name', 'a client', ...options);
    const form = { ...made, grant_type: 'client_credentials' };
    return accessToken(base, form);
  };
  const started = stack.move();
  return {
    base,
    port,
    pid: program.pid,
    endpoint: `${base}/mcp/acme/fixture`,
    dataDir,
    key,
    command,
    newKey,
    newToken,
    log: () => program.stderr,
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

async function administer(dataDir: string, words: readonly string[]) {
  const args = [launcher, ...words, '--data-dir', dataDir, '--json'];
  const { code, stdout, stderr } = await runProgram(process.execPath, { args });
  if (code !== 0) throw new Error(`${words.join(' ')}: exit ${code}\n${stderr}`);
  return record(JSON.parse(stdout));
}

async function accessToken(base: string, made: Record<string, unknown>): Promise<string> {
  const names = ['grant_type', 'client_id', 'client_secret'];
  const form = new URLSearchParams(
    Object.fromEntries(names.map((name) => [name, String(made[name])])),
  );
  const answer = await fetch(`${base}/api/oauth/token`, { method: 'POST', body: form });
  return String(record(await answer.json())['access_token']);
}

/** A JSON object, or a list under its indexes. */
function record(value: unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(Object(value)));
}
