import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { rememberedServer } from '#proxy/pipeline/detect-server';
import { browserHandover } from '#support/browser-handover';
import { cookieBrowser } from '#support/cookie-browser';
import { bodyOf } from '#support/counted-server';
import { desktop } from '#support/desktop';
import { legacyMcp } from '#support/legacy-mcp';
import { movableServer } from '#support/movable-server';
import { proxyProcess, type ProxyProcess } from '#support/proxy-process';
import { signInFront } from '#support/sign-in-front';
import { statelessMcp } from '#support/stateless-mcp';
import { temporaryFolder } from '#support/temporary-folder';

const apiKey = `mcp_${'k'.repeat(36)}`;
const echo = { name: 'echo', arguments: { text: 'hi' } };

/** Every file below `folder`, with its mode and its text. */
function filesBelow(folder: string) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => ({ mode: statSync(path).mode & 0o777, text: readFileSync(path, 'latin1') }));
}

const inputRequests = z.object({
  inputRequests: z.object({ sign_in: z.object({ params: z.object({ url: z.url() }) }) }),
});

async function machineWith(origin: string) {
  const folder = await temporaryFolder();
  return {
    folder: folder.path,
    proxy: () =>
      proxyProcess({
        args: [`${origin}/mcp`],
        env: { LATCHKEY_API_KEY: apiKey, LATCHKEY_STATE_DIR: folder.path },
      }),
    [Symbol.asyncDispose]: async () => folder[Symbol.asyncDispose](),
  };
}

/** Ends a proxy as an assistant does, so that its cache is on disk. */
async function left(proxy: ProxyProcess): Promise<void> {
  proxy.hangUp();
  expect(await proxy.ended).toBe(0);
}

/** The next message of that method; what comes before it is passed over. */
async function told(proxy: ProxyProcess, method: string): Promise<void> {
  while ((await proxy.next()).method !== method);
}

const names = (answer: { result?: Record<string, unknown> }) =>
  JSON.stringify(answer.result?.['tools']).match(/(?<="name":")\w+/g);

test('offline cache: a server that is down at the start is answered for, and takes over when it is back', async () => {
  await using server = await movableServer(legacyMcp().handle);
  await using machine = await machineWith(server.origin);
  await using first = machine.proxy();
  const handshake = await first.handshake();
  const tools = await first.request('tools/list');
  await left(first);
  await server.stop();

  await using proxy = machine.proxy();
  const discover = await proxy.request('server/discover');
  const kept = await proxy.handshake();
  const keptTools = await proxy.request('tools/list');
  const alive = await proxy.request('ping');
  const call = await proxy.request('tools/call', echo);
  await server.start();
  await told(proxy, 'notifications/tools/list_changed');
  const after = await proxy.request('tools/call', echo);
  const afterTools = await proxy.request('tools/list');

  expect(discover.error?.code).toBe(-32601);
  expect(kept.result).toEqual(handshake.result);
  expect(keptTools.result).toEqual(tools.result);
  expect(alive.result).toEqual({});
  expect(call.error?.message).toMatch(
    /cannot reach .*connection refused.*; offline since \d{4}-.*trying/,
  );
  expect(after.result).toMatchObject({ content: [{ text: 'hi' }] });
  expect(afterTools.result).toEqual(tools.result);
  const files = filesBelow(join(machine.folder, 'kept'));
  expect(files).toHaveLength(2);
  expect(files.every(({ mode }) => mode === 0o600)).toBe(true);
  expect(files.some(({ text }) => text.includes(apiKey))).toBe(false);
});

test('offline cache: a server that accepts the connection and stays silent does not delay the start', async () => {
  const mcp = legacyMcp();
  let silent = false;
  await using server = await movableServer(async (request, response) => {
    if (silent) await bodyOf(request);
    else await mcp.handle(request, response);
  });
  await using machine = await machineWith(server.origin);
  await using first = machine.proxy();
  await first.handshake();
  await first.request('tools/list');
  await left(first);
  silent = true;

  await using proxy = machine.proxy();
  const handshake = await proxy.handshake();
  const tools = await proxy.request('tools/list');
  proxy.hangUp();

  expect(handshake.result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(names(tools)).toContain('echo');
  expect(await proxy.ended).toBe(0);
});

test('offline cache: an unknown server that is down does not keep the proxy from starting', async () => {
  await using server = await movableServer(legacyMcp().handle);
  await server.stop();
  await using machine = await machineWith(server.origin);
  await using proxy = machine.proxy();

  const handshake = await proxy.handshake();
  const tools = await proxy.request('tools/list');
  await server.start();
  const after = await proxy.request('tools/list');

  expect(handshake.result).toMatchObject({
    protocolVersion: '2025-11-25',
    capabilities: { tools: { listChanged: true } },
  });
  expect(tools.error?.message).toMatch(/connection refused.*; offline since/);
  expect(names(after)).toContain('echo');
});

test('offline cache: a modern assistant gets the cached answers, too', async () => {
  await using server = await movableServer(statelessMcp().handle);
  await using machine = await machineWith(server.origin);
  const modern = {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  };
  await using first = machine.proxy();
  const discover = await first.request('server/discover', modern);
  const tools = await first.request('tools/list', modern);
  await left(first);
  await server.stop();

  await using proxy = machine.proxy();
  const kept = await proxy.request('server/discover', modern);
  const keptTools = await proxy.request('tools/list', modern);
  const call = await proxy.request('tools/call', { ...modern, ...echo });
  await server.start();
  const after = await proxy.request('tools/call', { ...modern, ...echo });

  expect(discover.result).toBeTruthy();
  expect(kept.result).toMatchObject({ capabilities: { tools: { listChanged: true } } });
  expect(keptTools.result).toMatchObject({ tools: tools.result?.['tools'] });
  expect(call.error?.message).toContain('connection refused');
  expect(after.result).toMatchObject({ content: [{ text: 'hi' }] });
});

test('offline cache: a modern server is answered for to a legacy assistant, and translated once it is back', async () => {
  await using server = await movableServer(statelessMcp({ legacy: 'reject' }).handle);
  await using machine = await machineWith(server.origin);
  await using first = machine.proxy();
  const handshake = await first.handshake();
  const tools = await first.request('tools/list');
  await left(first);
  await server.stop();

  await using proxy = machine.proxy();
  const kept = await proxy.handshake();
  const keptTools = await proxy.request('tools/list');
  const call = await proxy.request('tools/call', echo);
  await server.start();
  await told(proxy, 'notifications/tools/list_changed');
  const after = await proxy.request('tools/call', echo);

  expect(handshake.result).toMatchObject({ serverInfo: { name: 'stateless modern' } });
  expect(kept.result).toMatchObject({ serverInfo: { name: 'stateless modern' } });
  expect(names(tools)).toContain('echo');
  expect(keptTools.result).toEqual(tools.result);
  expect(call.error?.message).toMatch(/connection refused/);
  expect(after.result).toMatchObject({ content: [{ text: 'hi' }] });
});

test('signed out: a modern assistant gets the sign-in page as required input of the tool', async () => {
  await using server = await signInFront(statelessMcp().handle);
  await using browser = await browserHandover();
  await using machine = await desktop(browser.env);
  await using first = machine.proxy(server, '--sign-in', 'never');
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } },
  };

  const before = await first.request('tools/list', { _meta });
  const params = { name: 'sign_in', arguments: {}, _meta };
  const required = await first.request('tools/call', params);
  const { sign_in: shown } = inputRequests.parse(required.result).inputRequests;
  const accepted = { sign_in: { action: 'accept' } };
  const again = first.request('tools/call', { ...params, inputResponses: accepted });
  await cookieBrowser().open(shown.params.url);
  const answer = await again;
  const after = await first.request('tools/list', { _meta });
  const call = await first.request('tools/call', { ...echo, _meta });

  expect(names(before)).toEqual(['sign_in']);
  expect(required.result).toMatchObject({ resultType: 'input_required' });
  expect(JSON.stringify(answer.result)).toContain('You are signed in');
  expect(names(after)).toContain('echo');
  expect(call.result).toMatchObject({ content: [{ text: 'hi' }] });
  expect(browser.left).toBe(0);
});

test('signed out: the sign_in tool opens the page, and after the sign-in the server’s tools replace it', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using browser = await browserHandover();
  await using machine = await desktop(browser.env);
  await using proxy = machine.proxy(server);

  await proxy.handshake();
  const before = await proxy.request('tools/list');
  const page = await browser.next();
  const asked = [
    proxy.request('tools/call', { name: 'sign_in', arguments: {} }),
    cookieBrowser()
      .open(page)
      .then(async (response) => response.text()),
  ] as const;
  const [answer, text] = await Promise.all(asked);
  await told(proxy, 'notifications/tools/list_changed');
  const after = await proxy.request('tools/list');
  const call = await proxy.request('tools/call', echo);

  expect(names(before)).toEqual(['sign_in']);
  expect(text).toContain('You are signed in');
  expect(JSON.stringify(answer.result)).toContain('You are signed in');
  expect(names(after)).toContain('echo');
  expect(names(after)).not.toContain('sign_in');
  expect(call.result).toMatchObject({ content: [{ text: 'hi' }] });
  expect(browser.left).toBe(0);
  expect(server.asked).toHaveLength(1);
});

test('signed out: where no browser may open, the sign_in tool returns the URL', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using browser = await browserHandover();
  await using machine = await desktop(browser.env);
  await using proxy = machine.proxy(server, '--sign-in', 'never');

  await proxy.handshake();
  await proxy.request('tools/list');
  const answer = await proxy.request('tools/call', { name: 'sign_in', arguments: {} });
  const [, page = ''] = /(http:\S+?)\\n/.exec(JSON.stringify(answer.result)) ?? [];
  await cookieBrowser().open(page);
  await told(proxy, 'notifications/tools/list_changed');
  const after = await proxy.request('tools/list');

  expect(JSON.stringify(answer.result)).toContain(`latchkey login ${server.url}`);
  expect(names(after)).toContain('echo');
  expect(browser.left).toBe(0);
});

test('signed out: an assistant with URL elicitation is asked to open the page', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using browser = await browserHandover();
  await using machine = await desktop(browser.env);
  await using proxy = machine.proxy(server, '--sign-in', 'never');
  await proxy.request('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: { url: {} } },
    clientInfo: { name: 'test', version: '1' },
  });
  proxy.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  await proxy.request('tools/list');

  const params = { name: 'sign_in', arguments: {} };
  proxy.send({ jsonrpc: '2.0', id: 'call', method: 'tools/call', params });
  const elicitation = await proxy.next();
  proxy.send({ jsonrpc: '2.0', id: elicitation.id, result: { action: 'accept' } });
  await cookieBrowser().open(String(elicitation.params?.['url']));
  await told(proxy, 'notifications/elicitation/complete');
  let answer = await proxy.next();
  while (answer.id !== 'call') answer = await proxy.next();

  expect(elicitation).toMatchObject({
    method: 'elicitation/create',
    params: { mode: 'url', elicitationId: expect.any(String) },
  });
  expect(JSON.stringify(answer.result)).toContain('You are signed in');
  expect(browser.left).toBe(0);
});

test('signed out: two assistants at once open one page, and both continue after it', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using browser = await browserHandover();
  await using machine = await desktop(browser.env);
  await using one = machine.proxy(server);
  await using other = machine.proxy(server);
  const both = [one, other];

  await Promise.all(both.map(async (proxy) => proxy.handshake()));
  const before = await Promise.all(both.map(async (proxy) => proxy.request('tools/list')));
  await cookieBrowser().open(await browser.next());
  await Promise.all(both.map(async (proxy) => told(proxy, 'notifications/tools/list_changed')));
  const after = await Promise.all(both.map(async (proxy) => proxy.request('tools/list')));

  expect(before.map(names)).toEqual([['sign_in'], ['sign_in']]);
  expect(after.every((answer) => names(answer)?.includes('echo'))).toBe(true);
  expect(browser.left).toBe(0);
  expect(server.asked).toHaveLength(1);
});

test('logout: it deletes the offline cache, which never contained a token', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  await using proxy = machine.proxy(server);
  await proxy.handshake();
  await proxy.request('tools/list');
  await left(proxy);
  const kept = filesBelow(join(machine.folder, 'kept'));
  const servers = join(machine.folder, 'servers');
  await rememberedServer(servers, server.url).remember('modern');
  const remembered = filesBelow(servers);

  await machine.run('logout', server.url);

  expect(kept).toHaveLength(2);
  expect(kept.some(({ text }) => /access-|refresh-|code-/.test(text))).toBe(false);
  expect(filesBelow(join(machine.folder, 'kept'))).toEqual([]);
  expect(remembered).toHaveLength(1);
  expect(filesBelow(servers)).toEqual([]);
});
