import { createServer, type ServerResponse } from 'node:http';
import { expect, test } from 'vitest';

import { agentStatus } from '#proxy/agent/agent-status';
import { HttpLocalServer } from '#proxy/agent/http-local-server';
import { ServedServers } from '#proxy/agent/run-agent';
import { httpClient } from '#proxy/transport/http-client';
import { selfSigned } from '#support/certificates';
import { fakeClock } from '#support/fake-clock';
import { freePort, listen } from '#support/loopback';
import { tlsServer } from '#support/tls-server';

const request = () => ({
  server: 'crm',
  method: 'POST' as const,
  headers: {},
  body: Buffer.from('{}'),
  caller: 'dana',
  signal: new AbortController().signal,
});

/** An agent that serves `crm` at a port, and what it prints for a journal. */
function agentFor(port: number, host = '127.0.0.1', scheme = 'http') {
  let printed = '';
  const status = agentStatus(
    'plain',
    (text) => (printed += text),
    () => 0,
  );
  const url = new URL(`${scheme}://${host}:${port}/mcp`);
  const servers = new ServedServers(new Map([['crm', { kind: 'http', url }]]), {
    open: () =>
      new HttpLocalServer({ url, headerSecrets: {}, http: httpClient(() => ({ env: {} })) }),
    clock: fakeClock(),
    failed: (server, { message }) => status({ event: 'failed', server, problem: message }),
    recovered: (server) => status({ event: 'recovered', server }),
  });
  servers.bind(['crm']);
  return { servers, printed: () => printed };
}

test('agent: a server that refuses connections is reported once, with its address, until it answers again', async () => {
  const port = await freePort();
  const { servers, printed } = agentFor(port);
  const refused = { code: 'unreachable', message: `connection refused at 127.0.0.1:${port}` };
  await expect(servers.respond(request())).rejects.toMatchObject(refused);
  await expect(servers.respond(request())).rejects.toMatchObject(refused);
  const before = printed();
  // Without this, the agent could use a connection again before it notices that the server has closed it.
  const headers = { connection: 'close' };
  const server = createServer((_, response) => void response.writeHead(200, headers).end('{}'));
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve));
  await servers.respond(request());
  await servers.respond(request());
  server.closeAllConnections();
  await new Promise((resolve) => void server.close(resolve));
  await expect(servers.respond(request())).rejects.toMatchObject(refused);
  await servers.close();

  const line = `crm: connection refused at 127.0.0.1:${port}\n`;
  expect(before).toBe(line);
  expect(printed()).toBe(`${line}crm: responding again\n${line}`);
});

test('agent: an error of name resolution names the unknown host', async () => {
  const { servers } = agentFor(3000, 'crm.invalid');

  await expect(servers.respond(request())).rejects.toMatchObject({
    code: 'unknown_host',
    message: 'host crm.invalid not found',
  });
  await servers.close();
});

test('agent: a certificate that is not trusted is told from a server that cannot be reached', async () => {
  await using server = await tlsServer(await selfSigned());
  const { servers } = agentFor(server.port, '127.0.0.1', 'https');

  await expect(servers.respond(request())).rejects.toMatchObject({
    code: 'tls',
    message: expect.stringContaining('its certificate is self-signed'),
  });
  await servers.close();
});

test('agent: an error says that the server reset the connection', async () => {
  const server = createServer(({ socket }) => void socket.destroy());
  const { servers, printed } = agentFor(await listen(server));
  await expect(servers.respond(request())).rejects.toThrow('the connection was reset');
  await servers.close();
  await new Promise((resolve) => void server.close(resolve));

  expect(printed()).toMatch(
    /^crm: cannot reach http:\/\/127\.0\.0\.1:\d+: the connection was reset\n$/,
  );
});

test('agent: calls share a connection, although the signal of each aborts once its answer is there', async () => {
  let connections = 0;
  const answers = ['whole', ''];
  const server = createServer((_, response) => void response.end(answers.shift()));
  server.on('connection', () => (connections += 1));
  const { servers } = agentFor(await listen(server));
  const received: unknown[] = [];
  for (let call = 0; call < 3; call += 1) {
    const ended = new AbortController();
    const { body } = await servers.respond({ ...request(), signal: ended.signal });
    ended.abort();
    received.push(body);
    await new Promise((resolve) => void setImmediate(resolve));
  }
  await servers.close();
  await new Promise((resolve) => void server.close(resolve));

  expect(received).toEqual([Buffer.from('whole'), Buffer.alloc(0), Buffer.alloc(0)]);
  expect(connections).toBe(1);
});

test('agent: an answer that arrives with its head is one buffer, and any other a stream', async () => {
  const port = await freePort();
  const { servers } = agentFor(port);
  const answers = [
    (response: ServerResponse) => void response.end('whole'),
    (response: ServerResponse) => void response.end(),
    (response: ServerResponse) => {
      response.write('in ');
      setTimeout(() => response.end('parts'), 20);
    },
  ];
  const server = createServer((_, response) => answers.shift()?.(response));
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve));
  const whole = await servers.respond(request());
  const empty = await servers.respond(request());
  const inParts = await servers.respond(request());
  let parts = '';
  for await (const part of inParts.body) parts += String(part);
  await servers.close();
  await new Promise((resolve) => void server.close(resolve));

  expect([whole.body, empty.body]).toEqual([Buffer.from('whole'), Buffer.alloc(0)]);
  expect(inParts.body).not.toBeInstanceOf(Buffer);
  expect(parts).toBe('in parts');
});
