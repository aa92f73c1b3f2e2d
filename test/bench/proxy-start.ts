import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bodyOf, countedServer } from '#support/counted-server';
import { keyringSession } from '#support/keyring-session';

/**
 * From spawn to the answer of `initialize`, with a token from a real keychain, against the shortest
 * pipe between stdio and HTTP that Node can be. Paths of other launchers may follow the command.
 */
const barePipe = `
import http from 'node:http';
const agent = new http.Agent({ keepAlive: true });
process.stdin.on('data', (line) => {
  const headers = { 'content-type': 'application/json', authorization: 'Bearer x', 'content-length': line.length };
  http.request(process.argv[2], { method: 'POST', agent, headers }, (answer) => {
    answer.on('data', (data) => process.stdout.write(data));
    answer.on('end', () => process.stdout.write('\\n'));
  }).end(line);
});
process.stdin.on('end', () => process.exit(0));
`;
const rounds = 25;
const warmUp = 4;
const line =
  '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}\n';

await using keyring = await keyringSession();
await using server = await countedServer(async (request, response) => {
  await bodyOf(request);
  const answers: Record<string, unknown> = {
    '/mcp': { jsonrpc: '2.0', id: 1, result: { protocolVersion: '2025-11-25', capabilities: {} } },
    '/api/oauth/token': { access_token: 'x'.repeat(1_200), token_type: 'Bearer', expires_in: 36e3 },
  };
  const answer = answers[request.url ?? ''];
  const anonymous = request.url === '/mcp' && request.headers.authorization === undefined;
  response.writeHead(anonymous ? 401 : answer ? 200 : 404, { 'content-type': 'application/json' });
  response.end(JSON.stringify(answer ?? {}));
});
const directory = mkdtempSync(join(tmpdir(), 'latchkey-bench-'));
const env = {
  ...keyring.env,
  PATH: process.env['PATH'],
  HOME: directory,
  LATCHKEY_OAUTH: '{"clientId":"client_1","clientSecret":"secret_1"}',
};
writeFileSync(join(directory, 'bare.mjs'), barePipe);

async function startMs(script: string): Promise<number> {
  const began = performance.now();
  const child = spawn(process.execPath, [script, `${server.origin}/mcp`], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.write(line);
  await once(child.stdout, 'data');
  const took = performance.now() - began;
  child.stdin.end();
  await once(child, 'exit');
  return took;
}

const scripts = [
  join(directory, 'bare.mjs'),
  join(import.meta.dirname, '../../proxy/bin/latchkey.js'),
  ...process.argv.slice(2),
];
const times = new Map(scripts.map((script) => [script, [] as number[]]));
for (let round = 0; round < rounds; round += 1)
  for (const [script, taken] of times) {
    const took = await startMs(script);
    if (round >= warmUp) taken.push(took);
  }
for (const [script, taken] of times) {
  const sorted = taken.toSorted((one, other) => one - other);
  const median = sorted[sorted.length >> 1] ?? 0;
  console.log(`${median.toFixed(1)} ms median, ${sorted[0]?.toFixed(1)} ms least: ${script}`);
}
