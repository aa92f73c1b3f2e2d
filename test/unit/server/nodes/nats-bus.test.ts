import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { NatsBus } from '#server/nodes/nats-bus';
import { listen } from '#support/loopback';
import { temporaryFolder } from '#support/temporary-folder';

/** A server that greets like NATS of this version; its URL. */
async function greetingServer({
  version = '2.10.0',
  max_payload = 1024 * 1024,
  refuses = false,
} = {}): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    const info = { server_id: 'test', version, max_payload, proto: 1, headers: true };
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.on('data', (data) => {
      if (refuses) socket.end("-ERR 'Authorization Violation'\r\n");
      else if (data.includes('PING')) socket.write('PONG\r\n');
    });
  });
  const port = await listen(server);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `nats://someone:s3cret@127.0.0.1:${port}`;
}

async function faultOf(url: string, credentialsFile?: string): Promise<unknown> {
  return NatsBus.open({ url, credentialsFile }).then(
    () => undefined,
    (error: unknown) => error,
  );
}

test('NATS: a server that is too old is refused', async () => {
  const fault = await faultOf(await greetingServer({ version: '2.8.4' }));

  expect(fault).toMatchObject({
    name: 'CommandError',
    message: expect.stringMatching(/is version 2\.8\.4; nodes need 2\.9 or newer$/),
  });
});

test('NATS: a server that accepts only short messages is refused', async () => {
  const fault = await faultOf(await greetingServer({ max_payload: 1024 }));

  expect(fault).toMatchObject({
    name: 'CommandError',
    message: expect.stringContaining('at most 1024 bytes'),
    hint: expect.stringContaining('max_payload'),
  });
});

test('NATS: refused credentials are reported, without the password', async () => {
  const fault = await faultOf(await greetingServer({ refuses: true }));

  expect(fault).toMatchObject({
    name: 'CommandError',
    message: expect.stringContaining('refused the credentials'),
  });
  expect(String(fault)).not.toContain('s3cret');
});

test('NATS: a server that cannot be reached is reported with its address', async () => {
  const fault = await faultOf('nats://127.0.0.1:1');

  expect(fault).toMatchObject({
    name: 'CommandError',
    message: expect.stringContaining('NATS cannot be reached at 127.0.0.1:1'),
  });
});

test('NATS: a file without credentials is refused before anything connects', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'empty.creds');
  writeFileSync(file, 'nothing\n');

  const faults = [
    await faultOf('nats://127.0.0.1:1', file),
    await faultOf('nats://127.0.0.1:1', join(folder.path, 'missing.creds')),
  ];

  expect(faults).toMatchObject([
    { message: expect.stringContaining('does not hold credentials of a NATS user') },
    { message: expect.stringMatching(/^--nats-credentials .*missing\.creds does not exist$/) },
  ]);
});

test('NATS: a password with a bare % is sent as it is written', async () => {
  const url = (await greetingServer({ refuses: true })).replace('s3cret', '100%25-50%off');

  expect(await faultOf(url)).toMatchObject({ name: 'CommandError' });
});
