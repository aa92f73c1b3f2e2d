import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { mcpCall, toolsList } from '#support/mcp-call';
import { patient } from '#support/patient';
import { nameServer, withNames, type NameServer } from '#support/name-server';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const address = '127.53.0.1';
/** How the name of an upstream is found. */
const names = {
  'in /etc/hosts': 'in-hosts',
  'in a search domain': 'searched',
  'of a container, which its name server knows': 'mcp-container',
};

await suite('mountNamespaces', 'names that never resolve', () => {
  const upstreams = Object.values(names);
  let folder: TemporaryFolder;
  let dns: NameServer;
  let upstream: Awaited<ReturnType<typeof recordingUpstream>>;
  let server: ServerProcess;
  const endpoints = new Map<string, { endpoint: string; key: string }>();

  beforeAll(async () => {
    folder = await temporaryFolder('names');
    dns = await nameServer(address, {
      'searched.corp.test': '127.0.0.1',
      'mcp-container': '127.0.0.1',
    });
    upstream = await recordingUpstream();
    const { port } = new URL(upstream.url);
    server = await serverProcess({
      args: upstreams.flatMap((name) => ['--outbound-host', name]),
      startedBy: withNames(folder.path, {
        hosts: '127.0.0.1 localhost in-hosts\n',
        resolver: `nameserver ${address}\nsearch corp.test\n`,
      }),
    });
    const add = async (path: string, url: string) => {
      await server.command(['server', 'create', path, '--http-url', url]);
      const made = await server.command(['key', 'create', path, '--name', 'k', '--json']);
      const { key }: { key: string } = JSON.parse(made);
      endpoints.set(path, { endpoint: `${server.base}/mcp/${path}`, key });
    };
    await server.command(['organization', 'create', 'acme']);
    await server.command(['organization', 'create', 'globex']);
    for (const name of upstreams) {
      await add(`acme/${name}`, `http://${name}:${port}/mcp`);
    }
    for (const at of [0, 1, 2, 3, 4]) await add(`globex/s${at}`, `http://n${at}.silent.test/mcp`);
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await upstream[Symbol.asyncDispose]();
    await dns[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });
  /** Calls upstreams whose names never resolve; says whether one of the calls has ended. */
  const stuckCalls = () => {
    const ended = new AbortController();
    let hasEnded = false;
    const one = async (at: number) => {
      const { endpoint = '', key = '' } = endpoints.get(`globex/s${at}`) ?? {};
      const headers = { 'content-type': 'application/json', 'x-api-key': key };
      await fetch(endpoint, { method: 'POST', headers, body: toolsList, signal: ended.signal });
      hasEnded = true;
    };
    const calls = Promise.allSettled(Array.from({ length: 30 }, (_, at) => one(at % 4)));
    return {
      hasEnded: () => hasEnded,
      async [Symbol.asyncDispose]() {
        ended.abort();
        await calls;
      },
    };
  };

  test.each(Object.entries(names))(
    '108: starvation: an upstream with a name %s answers while others never resolve',
    async (_, name) => {
      const { endpoint = '', key } = endpoints.get(`acme/${name}`) ?? {};

      // The other calls end after five seconds, in which a busy machine may not answer the first call.
      await vi.waitFor(async () => {
        await using stuck = stuckCalls();
        const { status } = await mcpCall(endpoint, { key: key ?? '' });
        expect([status, stuck.hasEnded()]).toEqual([200, false]);
      }, patient);
    },
  );

  test('108: starvation: a call to a name that never resolves ends at the time limit, not at that of the C library', async () => {
    const { endpoint = '', key } = endpoints.get('globex/s4') ?? {};

    const { status, errorCode } = await mcpCall(endpoint, { key: key ?? '' });

    expect([status, errorCode]).toEqual([502, -32000]);
    const said = /resolving the name n4\.silent\.test takes too long/;
    await server.program.line(said, { stream: 'stderr' });
  });
});
