import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Agent, fetch, type Response } from 'undici';
import { WebSocket } from 'ws';
import { authority } from '#support/certificates';
import { freePort } from '#support/loopback';
import { modern } from '#support/mcp-call';
import { readMarkdown } from '#support/markdown';
import { runProgram, startProgram, type Program } from '#support/processes';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const root = join(import.meta.dirname, '../../..');
const { blocks } = readMarkdown(readFileSync(join(root, 'docs/self-hosting.md'), 'utf8'));

/** The code block of docs/self-hosting.md in one language, with the values of this machine in place of the written ones. */
function documented(language: string, instead: Readonly<Record<string, string>>): string {
  const text = blocks.find((block) => block.language === language)?.text ?? '';
  return Object.entries(instead).reduce((changed, [written, here]) => {
    if (!changed.includes(written)) throw new Error(`docs/self-hosting.md has no ${written}`);
    return changed.replaceAll(written, here);
  }, text);
}

await suite('systemd', 'docs/self-hosting.md: systemd', () => {
  test('systemd-analyze accepts the unit', async () => {
    await using folder = await temporaryFolder('unit');
    const file = join(folder.path, 'latchkey.service');
    const program = { '/opt/latchkey/node_modules/.bin/node': process.execPath };
    writeFileSync(file, documented('ini', program));
    const { code, stdout, stderr } = await runProgram('systemd-analyze', {
      args: ['verify', file],
    });

    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
  });
});

const fronts = {
  caddy: (folder: string, port: number, serverPort: number): Program => {
    const file = join(folder, 'Caddyfile');
    const site = documented('caddyfile', {
      'latchkey.example.com {': `localhost:${port} {\n\tbind 127.0.0.1\n\ttls internal`,
      '127.0.0.1:8787': `127.0.0.1:${serverPort}`,
    });
    // For a public name, Caddy would get a certificate from the internet, and listen on port 80 as well.
    writeFileSync(
      file,
      `{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n${site}`,
    );
    return startProgram('caddy', {
      args: ['run', '--config', file, '--adapter', 'caddyfile'],
      env: { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
    });
  },
  nginx: (folder: string, port: number, serverPort: number): Program => {
    const file = join(folder, 'nginx.conf');
    const site = documented('nginx', {
      'listen 443 ssl http2': `listen 127.0.0.1:${port} ssl http2`,
      '/etc/ssl/latchkey.example.com.pem': join(folder, 'cert.pem'),
      '/etc/ssl/latchkey.example.com.key': join(folder, 'key.pem'),
      'server_name latchkey.example.com': 'server_name localhost',
      '127.0.0.1:8787': `127.0.0.1:${serverPort}`,
    });
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((name) => `${name}_temp_path ${folder}/${name};`)
      .join(' ');
    writeFileSync(
      file,
      `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;
events {}
http { access_log off; ${temporary}
${site}
}`,
    );
    return startProgram('nginx', { args: ['-p', folder, '-c', file, '-e', 'stderr'] });
  },
};

for (const kind of ['caddy', 'nginx'] as const) {
  await suite(kind, `docs/self-hosting.md: behind ${kind}`, () => {
    let folder: TemporaryFolder;
    let front: Program;
    let server: ServerProcess;
    let port: number;
    let key: string;
    let agentKey: string;

    beforeAll(async () => {
      folder = await temporaryFolder(kind);
      port = await freePort();
      const { cert, key: certificateKey } = await (
        await authority()
      ).issue('localhost', {
        hosts: ['localhost'],
      });
      writeFileSync(join(folder.path, 'cert.pem'), cert);
      writeFileSync(join(folder.path, 'key.pem'), certificateKey);
      const args = ['--demo', '--show-demo-credentials', '--trust-proxy', '127.0.0.1'];
      const base = ['--base-url', `https://localhost:${port}`];
      server = await serverProcess({ args: [...args, ...base] });
      key = /mcp_\w+/.exec(server.program.stdout)?.[0] ?? '';
      const created = await server.command(['agent', 'create', 'demo/office', '--json']);
      agentKey = String(JSON.parse(created).key);
      front = fronts[kind](folder.path, port, server.port);
      await vi.waitFor(() => ready(port), patient);
    });
    afterAll(async () => {
      await front.end();
      await server[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    });

    const call = (method: string, headers: Record<string, string> = {}) =>
      through(port, '/mcp/demo/library', {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method }),
      });

    test('/readyz answers as documented', async () => {
      const shown = blocks.find(({ text }) => text.includes('"status"'))?.text;

      expect(await (await through(port, '/readyz')).text()).toBe(shown);
    });

    test('a call with a key is answered, and the challenge for one without names the public URL', async () => {
      const listed = await call('tools/list', { 'x-api-key': key });
      const refused = await call('tools/list');

      expect(listed.status).toBe(200);
      expect(await listed.text()).toContain('list_tables');
      expect(refused.status).toBe(401);
      expect(refused.headers.get('www-authenticate')).toContain(
        `https://localhost:${port}/.well-known/`,
      );
    });

    test('events of a stream arrive while it is open', async () => {
      const listen = modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
      const headers = { 'content-type': 'application/json', 'x-api-key': key, ...listen.headers };
      const request = { method: 'POST', headers, body: listen.body };
      const stream = (await through(port, '/mcp/demo/library', request)).body?.getReader();
      const first = await stream?.read();
      await stream?.cancel();

      expect(Buffer.from(first?.value ?? []).toString()).toContain('acknowledged');
    });

    test('a call over HTTP/2 is answered', async () => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
      const http2 = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } });
      const protocol = await offeredProtocol(port);
      const { status } = await fetch(`https://localhost:${port}/mcp/demo/library`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': key },
        body,
        dispatcher: http2,
      });
      await http2.destroy();

      expect([protocol, status]).toEqual(['h2', 200]);
    });

    test('a body that is too large is answered as JSON', async () => {
      const answer = await through(port, '/mcp/demo/library', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': key },
        body: 'x'.repeat(9 * 1024 * 1024),
      });

      expect(answer.status).toBe(413);
      expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
      expect(await answer.json()).toMatchObject({ id: null, error: { code: -32600 } });
    });

    test('an agent’s WebSocket connects', async () => {
      const socket = new WebSocket(
        `wss://localhost:${port}/api/agents/connect`,
        'latchkey-agent-1',
        {
          headers: { 'x-api-key': agentKey },
          rejectUnauthorized: false,
        },
      );
      const opened = await new Promise((resolve) => {
        socket.once('open', () => resolve('open')).once('error', (error) => resolve(error.message));
      });
      socket.terminate();

      expect(opened).toBe('open');
    });
  });
}

const anyCertificate = new Agent({ connect: { rejectUnauthorized: false } });

/** Sends a request through the front. This machine knows no authority that issued the front's certificate. */
function through(port: number, path: string, init: object = {}): Promise<Response> {
  return fetch(`https://localhost:${port}${path}`, { ...init, dispatcher: anyCertificate });
}

/** What a front that is offered HTTP/2 and HTTP/1.1 chooses. */
async function offeredProtocol(port: number): Promise<string | false | null> {
  const ALPNProtocols = ['h2', 'http/1.1'];
  const place = { host: 'localhost', servername: 'localhost', port };
  const socket = connect({ ...place, ALPNProtocols, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  socket.destroy();
  return socket.alpnProtocol;
}

/** @throws {Error} while the front does not answer, or the server behind it */
async function ready(port: number): Promise<void> {
  const { status } = await through(port, '/readyz');
  if (status !== 200) throw new Error(`/readyz answers ${status}`);
}
