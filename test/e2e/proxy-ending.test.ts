import { expect, test, vi } from 'vitest';
import { countedServer } from '#support/counted-server';
import { proxyProcess } from '#support/proxy-process';

const hanging = async () => countedServer(() => undefined);

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s ends the proxy with 0 while a server hangs',
  async (signal) => {
    await using server = await hanging();
    await using proxy = proxyProcess({ args: [server.origin] });
    proxy.send({ jsonrpc: '2.0', id: 1, method: 'initialize' });
    await vi.waitFor(() => expect(server.seen).toHaveLength(1), { timeout: 10_000 });
    const began = Date.now();

    proxy.kill(signal);

    expect(await proxy.ended).toBe(0);
    expect(Date.now() - began).toBeLessThan(2_000);
  },
);

test('the end of stdin ends the proxy with 0, at once when nothing is open', async () => {
  await using server = await hanging();
  await using proxy = proxyProcess({ args: [server.origin] });
  const began = Date.now();

  proxy.hangUp();

  expect(await proxy.ended).toBe(0);
  expect(Date.now() - began).toBeLessThan(2_000);
  expect(server.seen).toEqual([]);
});

test('the end of stdin ends the proxy with 0, soon when the server hangs', async () => {
  await using server = await hanging();
  await using proxy = proxyProcess({ args: [server.origin] });
  proxy.send({ jsonrpc: '2.0', id: 1, method: 'initialize' });
  proxy.hangUp();

  expect(await proxy.ended).toBe(0);
});

test('help and version are printed, wrong usage is one line, a hint and 2', async () => {
  await using help = proxyProcess({ args: ['--help'] });
  await using version = proxyProcess({ args: ['--version'] });
  await using wrong = proxyProcess({ args: ['acme', '--confg', 'x'] });
  await using nothing = proxyProcess({ args: [] });

  expect(await help.nextLine()).toContain('latchkey');
  expect(await version.nextLine()).toMatch(/^\d+\.\d+\.\d+$/);
  expect(await wrong.ended).toBe(2);
  expect(wrong.stderr()).toMatch(/^latchkey: there is no option --confg\nhint: .*\n$/);
  expect(await nothing.ended).toBe(2);
});

test('an assistant that stops reading ends the proxy with 0', async () => {
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
