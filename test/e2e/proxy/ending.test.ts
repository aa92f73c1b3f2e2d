import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { countedServer } from '#support/counted-server';
import { faultMcp } from '#support/fault-mcp';
import { startProgram } from '#support/processes';
import { launcher, proxyProcess } from '#support/proxy-process';
import { patient } from '#support/patient';
import { temporaryFolder } from '#support/temporary-folder';

const hanging = async () => countedServer(() => undefined);

test.each(['SIGTERM', 'SIGINT'] as const)(
  'proxy exit: %s ends it with 0 while a server hangs',
  async (signal) => {
    await using server = await hanging();
    await using proxy = proxyProcess({ args: [server.origin] });
    proxy.send({ jsonrpc: '2.0', id: 1, method: 'initialize' });
    await vi.waitFor(() => expect(server.seen).toHaveLength(1), patient);

    proxy.kill(signal);

    expect(await proxy.ended).toBe(0);
  },
);

test('proxy exit: the end of stdin ends it with 0, immediately when no request is open', async () => {
  await using server = await hanging();
  await using proxy = proxyProcess({ args: [server.origin] });

  proxy.hangUp();

  expect(await proxy.ended).toBe(0);
  expect(server.seen).toEqual([]);
});

test('proxy exit: the end of stdin ends it with 0 within seconds when the server hangs', async () => {
  await using server = await hanging();
  await using proxy = proxyProcess({ args: [server.origin] });
  proxy.send({ jsonrpc: '2.0', id: 1, method: 'initialize' });
  proxy.hangUp();

  expect(await proxy.ended).toBe(0);
});

test('command line: help and version are printed; a usage error is one line with a hint and exit code 2', async () => {
  await using help = proxyProcess({ args: ['--help'] });
  await using version = proxyProcess({ args: ['--version'] });
  await using wrong = proxyProcess({ args: ['acme', '--confg', 'x'] });
  await using nothing = proxyProcess({ args: [] });

  expect(await help.nextLine()).toContain('Connects AI assistants');
  expect(await version.nextLine()).toMatch(/^\d+\.\d+\.\d+$/);
  expect(await wrong.ended).toBe(2);
  expect(wrong.stderr()).toMatch(/^latchkey: unknown option --confg\nhint: .*\n$/);
  expect(await nothing.ended).toBe(2);
});

test('log file: the proxy appends what it writes to stderr, and does not start where it cannot', async () => {
  await using folder = await temporaryFolder('log');
  const file = join(folder.path, 'latchkey.log');
  const url = 'http://127.0.0.1:9/mcp';
  await using wrong = proxyProcess({ args: [url, '--log-file', folder.path] });
  await using proxy = proxyProcess({ args: [url, '--log-file', file, '--log-level', 'debug'] });
  await using failing = proxyProcess({ args: ['nowhere', '--log-file', join(folder.path, 'b')] });
  proxy.send({ jsonrpc: '2.0', id: 1, method: 'ping' });
  proxy.hangUp();

  expect(await wrong.ended).toBe(2);
  expect(wrong.stderr()).toContain('cannot be opened (EISDIR)');
  expect(await proxy.ended).toBe(0);
  expect(readFileSync(file, 'utf8')).toBe(proxy.stderr());
  expect(proxy.stderr()).toContain('"level":');
  expect(await failing.ended).toBe(2);
  expect(JSON.parse(readFileSync(join(folder.path, 'b'), 'utf8')).event).toContain('nowhere');
});

test('proxy exit: it ends with 0 when the assistant stops reading', async () => {
  await using server = await countedServer((_, response) =>
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"jsonrpc":"2.0","id":1,"result":{}}'),
  );
  await using proxy = proxyProcess({ args: [server.origin] });
  proxy.stopReading();
  proxy.send({ jsonrpc: '2.0', id: 1, method: 'ping' });

  expect(await proxy.ended).toBe(0);
});

test.each(['SIGTERM', 'SIGINT', 'the end of stdin'] as const)(
  'proxy exit: %s with open calls: each is answered, the requests are aborted and the session deleted',
  async (how) => {
    const heard: string[] = [];
    const { handle } = faultMcp('sse', (what) => heard.push(what));
    await using server = await countedServer(handle);
    await using proxy = proxyProcess({ args: [server.origin] });
    await proxy.handshake();
    for (const n of [1, 2])
      proxy.send({
        jsonrpc: '2.0',
        id: n * 10,
        method: 'tools/call',
        params: { name: 'hold', arguments: { n } },
      });
    await vi.waitFor(() => expect(heard).toContain('hold 2'), patient);

    if (how === 'the end of stdin') proxy.hangUp();
    else proxy.kill(how);
    const answers = [await proxy.next(), await proxy.next()];

    expect(await proxy.ended).toBe(0);
    expect(new Set(answers.map(({ id }) => id))).toEqual(new Set([10, 20]));
    for (const { error } of answers) expect(error?.data).toMatchObject({ outcome: 'unknown' });
    await vi.waitFor(
      () => expect(heard).toEqual(expect.arrayContaining(['closed 1', 'closed 2', 'DELETE'])),
      patient,
    );
    expect(proxy.unread()).toEqual([]);
  },
);

test.each(['json', 'sse'] as const)(
  'cancellation: a cancelled call is aborted at a server that answers with %s',
  async (kind) => {
    const heard: string[] = [];
    const { handle } = faultMcp(kind, (what) => heard.push(what));
    await using server = await countedServer(handle);
    await using proxy = proxyProcess({ args: [server.origin] });
    await proxy.handshake();
    proxy.send({
      jsonrpc: '2.0',
      id: 'h',
      method: 'tools/call',
      params: { name: 'hold', arguments: { n: 1 } },
    });
    await vi.waitFor(() => expect(heard).toContain('hold 1'), patient);

    proxy.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'h' } });
    await vi.waitFor(() => expect(heard).toContain('closed 1'), patient);

    expect((await proxy.request('ping')).result).toBeTruthy();
    expect(proxy.unread()).toEqual([]);
  },
);

test('proxy exit: SIGKILL of the assistant leaves no orphan, and the session is deleted', async () => {
  const heard: string[] = [];
  const { handle } = faultMcp('sse', (what) => heard.push(what));
  await using server = await countedServer(handle);
  await using assistant = startProgram(process.execPath, {
    args: [join(import.meta.dirname, '../../support/dying-assistant.ts'), launcher, server.origin],
  });
  const [, pid = ''] = await assistant.line(/^proxy (\d+)$/m);
  await vi.waitFor(() => expect(heard).toContain('hold 1'), patient);

  assistant.kill('SIGKILL');

  await vi.waitFor(() => expect(heard).toContain('DELETE'), patient);
  await vi.waitFor(() => expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH'), patient);
});
