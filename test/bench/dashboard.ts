import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Agent, request } from 'undici';
import { databaseName } from '#server/app/stores';
import { freePort } from '#support/loopback';
import { startProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { amounts, fillDashboard, type DashboardData } from './dashboard-data.ts';
import { median } from './measurements.ts';

const rounds = 40;
const mostMs = 50;
const mostTimes = 5;
const launcher = join(
  process.env['BENCH_LATCHKEY_SERVER'] ?? join(import.meta.dirname, '../../server'),
  'bin/latchkey-server.js',
);
const listening = /listening on (http:\/\/\S+)/;

/** Every page of an organization that has much of everything, each beside the same bytes from bare Fastify. */
export async function benchDashboard(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const dataDir = join(folder, 'data');
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  log(
    `filling: ${Object.entries(amounts)
      .map(([name, count]) => `${count} ${name}`)
      .join(', ')}`,
  );
  const data = await fillDashboard(dataDir, base);
  const args = ['start', '--port', String(port), '--base-url', base, '--data-dir', dataDir];
  const server = stack.use(
    startProgram(process.execPath, { args: [launcher, ...args, '--log-level', 'warn'] }),
  );
  await server.line(listening);
  const dispatcher = new Agent({ connections: 1, pipelining: 1 });
  stack.defer(() => dispatcher.close());
  const headers = { cookie: data.cookie };
  const load = async (url: string): Promise<string> => {
    const answer = await request(url, { headers, dispatcher });
    const text = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`${url} answers ${answer.statusCode} ${text}`);
    return text;
  };

  const pages = pagesOf(data);
  const bytes = join(folder, 'pages');
  await mkdir(bytes);
  const sizes: number[] = [];
  for (const [index, { path }] of pages.entries()) {
    const text = await load(base + path);
    sizes.push(Buffer.byteLength(text));
    await writeFile(join(bytes, String(index)), text);
  }
  const floor = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'floors/page.ts'), bytes] }),
  );
  const [, floorBase = ''] = await floor.line(listening);

  const times = pages.map(() => ({
    floor: [] as number[],
    page: [] as number[],
    written: [] as number[],
  }));
  const other = new DatabaseSync(join(dataDir, databaseName), { timeout: 5000 });
  stack.defer(() => other.close());
  other.exec('pragma synchronous = off');
  const write = other.prepare("update person set created_at = created_at + 1 where id = 'user_9'");
  const timed = async (url: string): Promise<number> => {
    const from = performance.now();
    await load(url);
    return performance.now() - from;
  };
  log(`${rounds} rounds of ${pages.length} pages`);
  // The first rounds warm both up, and are not counted.
  for (let round = -5; round < rounds; round += 1) {
    for (const [index, { path }] of pages.entries()) {
      const bare = await timed(`${floorBase}/${index}`);
      const page = await timed(base + path);
      if (round < 0) continue;
      times[index]?.floor.push(bare);
      times[index]?.page.push(page);
    }
  }
  // In rounds of their own, because a write invalidates what every page has cached.
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { path }] of pages.entries()) {
      write.run();
      times[index]?.written.push(await timed(base + path));
    }
  }
  const rows = pages.map(({ name }, index) => {
    const bare = median(times[index]?.floor ?? []);
    const page = median(times[index]?.page ?? []);
    const written = median(times[index]?.written ?? []);
    const over = page > mostMs || page / bare > mostTimes ? ' over' : '';
    const size = ((sizes[index] ?? 0) / 1024).toFixed(0);
    return `| ${name} | ${size} | ${bare.toFixed(2)} | ${page.toFixed(2)} ×${(page / bare).toFixed(1)}${over} | ${written.toFixed(2)} ×${(written / bare).toFixed(1)} |`;
  });
  const head = '| page | kB | bare Fastify, ms | latchkey-server, ms | after a write, ms |';
  return [head, '| --- | --: | --: | --: | --: |'].concat(rows).join('\n');
}

function pagesOf(data: DashboardData) {
  const home = '/dashboard/bench';
  const server = `${home}/servers/${data.server}`;
  return Object.entries({
    overview: home,
    servers: `${home}/servers`,
    'servers, last page': `${home}/servers?page=20`,
    'servers, filtered': `${home}/servers?filter=99`,
    'new server': `${home}/new-server`,
    server,
    'server settings': `${server}/settings`,
    'server access': `${server}/access`,
    'OAuth clients of one server': `${server}/clients`,
    'the same, by name': `${server}/clients?sort=name&order=asc`,
    'OAuth client': `${server}/clients/${data.clientId}`,
    'new OAuth client': `${server}/new-client`,
    'API keys of one server': `${server}/keys`,
    'the same, last page': `${server}/keys?page=100`,
    'the same, by last use': `${server}/keys?sort=last_used_at&order=desc`,
    'the same, filtered': `${server}/keys?filter=42`,
    'API key': `${server}/keys/${data.keyId}`,
    'new API key': `${server}/new-key`,
    agents: `${home}/agents`,
    'agents, last page': `${home}/agents?page=10`,
    agent: `${home}/agents/${data.agent}`,
    people: `${home}/people`,
    'people, filtered': `${home}/people?filter=person19`,
    person: `${home}/people/${data.userId}`,
    groups: `${home}/groups`,
    group: `${home}/groups/${data.groupId}`,
    consents: `${home}/consents`,
    'audit log': `${home}/audit`,
    'the same, of one person': `${home}/audit?actor=person7@example.com`,
    'the same, refused': `${home}/audit?outcome=refused`,
    'usage, a day': `${home}/usage`,
    'usage, 90 days by tool': `${home}/usage?range=90d&kind=tool`,
    'usage of one API key': `${home}/usage?by=key&server=srv_0&of=${data.keyId}`,
    webhooks: `${home}/settings/webhooks`,
    'organization settings': `${home}/settings`,
    account: '/account',
  }).map(([name, path]) => ({ name, path }));
}
