import { join } from 'node:path';
import { modern } from '#support/mcp-call';
import { startProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { Installation } from '../nodes/installation.ts';
import { answers, httpLoad } from './http-load.ts';
import { numberHere, type Shot } from './shot.ts';
import { interleaved, Measurements, type Figure } from './measurements.ts';
import { processCost } from './process-cost.ts';
import { latchkeyServer, tokenRequest } from './server-contenders.ts';

const figures = {
  tokens: { name: 'tokens, 16 connections', unit: '1/s', digits: 0 },
  tokenCpu: { name: 'processor time a token', unit: 'µs', digits: 0 },
  calls: { name: 'tool calls, 64 connections', unit: '1/s', digits: 0 },
  callsMs: { name: 'the same, median answer time', unit: 'ms', digits: 1 },
  callCpu: { name: 'processor time a call', unit: 'µs', digits: 0 },
} satisfies Record<string, Figure>;

/** Without a session, so that on SQLite either process answers it. */
const { body, headers: modernHeaders } = modern('tools/call', { name: 'json', arguments: {} });
const toolCall = {
  headers: { ...modernHeaders, 'content-type': 'application/json' },
  body: body.replace('"id":1,', `"id":${numberHere},`),
};

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
const seconds = 3;

interface Racer {
  readonly name: string;
  readonly token: Shot;
  readonly call: Shot;
  readonly pid: number;
}

/** Measures what a second process on one machine gains, on either database. Returns two Markdown tables. */
export async function benchProcesses(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const target = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'floors/mcp-target.ts')] }),
  );
  const [, origin = ''] = await target.line(/listening on (\S+)/, { timeoutMs: 60_000 });

  const sqlite: Racer[] = [];
  for (const processes of ['1', '2']) {
    const args = ['--processes', processes];
    const own = join(folder, processes);
    const {
      tokenRequest: token,
      toolCall: { url, headers },
      programs,
    } = await latchkeyServer(origin, own, { args, path: '/modern' });
    for (const program of programs) stack.use(program);
    const call = { url, headers: { ...headers, ...toolCall.headers }, body: toolCall.body };
    sqlite.push({ name: `SQLite, ${processes}`, token, call, pid: programs[0]?.pid ?? 0 });
  }

  const installation = stack.use(await Installation.create({ size: 0 }));
  const created = async (...words: string[]) =>
    JSON.parse(await installation.command(...words, '--json'));
  await installation.command('organization', 'create', 'bench');
  await installation.command('server', 'create', 'bench/http', '--http-url', `${origin}/modern`);
  const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
  const client = await created('client', 'create', 'bench/http', '--name', 'bench', ...scopes);
  const { key } = await created('key', 'create', 'bench/http', '--name', 'bench');
  const host = new URL(installation.base).host;
  const postgres: Racer[] = [];
  for (const processes of ['1', '2']) {
    const node = await installation.addNode({ args: ['--processes', processes] });
    const base = `http://${node.host}:${node.port}`;
    const token = tokenRequest(base, { id: client.client_id, secret: client.client_secret });
    postgres.push({
      name: `PostgreSQL, ${processes}`,
      token: { ...token, headers: { ...token.headers, host } },
      call: {
        url: `${base}/mcp/bench/http`,
        headers: { ...toolCall.headers, host, 'x-api-key': key },
        body: toolCall.body,
      },
      pid: node.program.pid,
    });
  }

  const racers = [...sqlite, ...postgres];
  const measurements = new Measurements();
  const { name: generator, load } = await httpLoad(folder);
  for (const { token, call } of racers) {
    await answers(token, '"access_token"');
    await answers(call, '"result"');
    await load(token, 16, 1);
    await load(call, 64, 1);
  }
  log(`${rounds} rounds of ${2 * seconds} s for each of ${racers.length}, loaded by ${generator}`);
  await interleaved(rounds, racers, async ({ name, token, call, pid }) => {
    const cpuMs = () => processCost(pid)?.cpuMs ?? Number.NaN;
    const before = cpuMs();
    const tokens = await load(token, 16, seconds);
    const between = cpuMs();
    const calls = await load(call, 64, seconds);
    const after = cpuMs();
    const each = (ms: number, perSecond: number) => (ms * 1000) / (perSecond * seconds);
    measurements.add(figures.tokens, name, tokens.perSecond);
    measurements.add(figures.tokenCpu, name, each(between - before, tokens.perSecond));
    measurements.add(figures.calls, name, calls.perSecond);
    measurements.add(figures.callsMs, name, calls.medianMs);
    measurements.add(figures.callCpu, name, each(after - between, calls.perSecond));
  });
  const table = (group: readonly Racer[]) =>
    measurements.markdown(
      Object.values(figures),
      group.map(({ name }) => name),
    );
  return `${table(sqlite)}\n\n${table(postgres)}`;
}
