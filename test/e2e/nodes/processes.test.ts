import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { childrenOf, many, send, statusesOf } from '#support/fresh-connections';
import { initialize, rpc } from '#support/mcp-call';
import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { runProgram } from '#support/processes';
import { serverLauncher } from '#support/programs';
import { runningAgent } from '#support/running-agent';
import { suite } from '#support/suite';
import { answerInSessions, recordingUpstream } from '#support/upstreams/recording-upstream';
import { talkingUpstream } from '#support/upstreams/talking-upstream';

const made = z.object({ id: z.string(), key: z.string() });
const version = '2025-06-18';
const accept = 'application/json, text/event-stream';
await suite('postgres', 'several processes of one server, without NATS', () => {
  const stack = new AsyncDisposableStack();
  let cluster: NodeCluster;
  let key: string;
  let agentKey: string;
  let privateKey: string;

  beforeAll(async () => {
    const upstream = stack.use(await talkingUpstream());
    cluster = stack.use(await nodeCluster({ size: 1, args: ['--processes', '2'] }));
    await cluster.command(['organization', 'create', 'acme']);
    await cluster.command(['server', 'create', 'acme/talking', '--http-url', upstream.url]);
    await cluster.command(['server', 'create', 'acme/library', '--demo']);
    key = (await created('key', 'create', 'acme/talking', '--name', 'k')).key;
    agentKey = (await created('agent', 'create', 'acme/berlin')).key;
    await cluster.command(['server', 'create', 'acme/private', '--agent', 'berlin']);
    privateKey = (await created('key', 'create', 'acme/private', '--name', 'p')).key;
  });
  afterAll(() => stack.disposeAsync());

  const created = async (...words: string[]) =>
    made.parse(JSON.parse(await cluster.command([...words, '--json'])));
  /** When PostgreSQL does not answer within a second, a call is refused with 503, and its caller tries again. */
  const call = async (
    own: string,
    { server = 'talking', body = rpc('tools/list'), headers = {} } = {},
  ) => {
    for (;;) {
      const answer = await send(`http://127.0.0.1:${cluster.nodes[0]?.port}/mcp/acme/${server}`, {
        body,
        headers: { ...headers, accept, 'x-api-key': own, host: new URL(cluster.base).host },
      });
      if (answer.status !== 503) return answer;
    }
  };

  const openSession = async (own = key, server = 'talking') => {
    const opened = await call(own, { server, body: initialize(version) });
    return z.string().parse(opened.headers['mcp-session-id']);
  };
  /** The part of a session's id that is random for each process. */
  const processOf = (session: string) => session.split('.')[0];
  const inSession = (session: string, own = key, server = 'talking') =>
    call(own, {
      server,
      headers: { 'mcp-session-id': session, 'mcp-protocol-version': version },
    });

  test('every process answers calls in the sessions of the others', async () => {
    const sessions = await many(() => openSession());
    const answered = await Promise.all(
      sessions.map((session) => statusesOf(many(() => inSession(session)))),
    );

    expect(new Set(sessions.map(processOf)).size).toBe(2);
    expect(answered).toEqual(sessions.map(() => [200]));
  });

  test('an agent serves the calls that any of the processes gets', async () => {
    const upstream = stack.use(await recordingUpstream());
    answerInSessions(upstream);
    stack.use(await runningAgent(cluster.base, agentKey, { private: { url: upstream.url } }));

    const sessions = await many(() => openSession(privateKey, 'private'));
    const answered: number[][] = [];
    // One session after another: an agent takes only so many calls of one caller at once, and is busy for others.
    for (const session of sessions) {
      answered.push(await statusesOf(many(() => inSession(session, privateKey, 'private'))));
    }

    expect(new Set(sessions.map(processOf)).size).toBe(2);
    expect(answered).toEqual(sessions.map(() => [200]));
  });

  test('a storm of revocations: no call that starts after the answer is admitted', async () => {
    const keys: z.infer<typeof made>[] = [];
    for (let at = 0; at < 20; at += 1) {
      keys.push(await created('key', 'create', 'acme/library', '--name', `storm ${at}`));
    }
    const revoked = new Set<string>();
    const over = new AbortController();
    const wrong: string[] = [];
    const seen = { admitted: 0, refused: 0, other: [] as number[] };
    const callers = many(async (from) => {
      for (let at = from; !over.signal.aborted; at += 1) {
        const one = keys[(at * 7) % keys.length];
        if (!one) return;
        const wasRevoked = revoked.has(one.id);
        const { status } = await call(one.key, { server: 'library' });
        if (wasRevoked && status !== 401) wrong.push(`${one.id} ${status}`);
        if (status === 200) seen.admitted += 1;
        else if (status === 401) seen.refused += 1;
        else seen.other.push(status);
      }
    });

    for (const { id } of keys) {
      await cluster.command(['key', 'revoke', id]);
      revoked.add(id);
    }
    const last = await Promise.all(
      keys.map((one) => statusesOf(many(() => call(one.key, { server: 'library' })))),
    );
    over.abort();
    await callers;

    expect({ wrong, other: seen.other }).toEqual({ wrong: [], other: [] });
    expect(last).toEqual(keys.map(() => [401]));
    expect(Math.min(seen.admitted, seen.refused)).toBeGreaterThan(0);
  });

  test('one link for the first owner is printed, and each log line names its process', async () => {
    const { program } = cluster;
    await vi.waitFor(
      () => expect(new Set(program.stderr.match(/"process":\d/g))).toHaveProperty('size', 2),
      patient,
    );

    expect(program.stdout.match(/\/set-up\//g)).toHaveLength(1);
    expect(program.stdout).toMatch(/^listening on \S+ with 2 processes$/m);
  });

  test('a process that is killed loses its own sessions, and is replaced', async () => {
    const { program } = cluster;
    const sessions = await many(() => openSession());
    const [victim = 0] = await childrenOf(program.pid);

    process.kill(victim, 'SIGKILL');

    await program.line(/"process":\d,"pauseMs":250,"msg":"a process ended/, { stream: 'stderr' });
    const left = await vi.waitFor(async () => {
      const answers = await Promise.all(sessions.map((session) => inSession(session)));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 404]));
      return answers;
    }, patient);
    const survivors = sessions.filter((_, at) => left[at]?.status === 200).map(processOf);
    expect(new Set(survivors).size).toBe(1);
    await vi.waitFor(async () => {
      const opened = new Set((await many(() => openSession())).map(processOf));
      expect(opened.size).toBe(2);
      expect(opened).toContain(survivors[0]);
    }, patient);
  });
});

await suite('postgres', 'the end of a server with several processes', () => {
  const started = () => nodeCluster({ size: 1, args: ['--processes', '3'] });

  test('SIGTERM ends all processes, and the server exits with 0', async () => {
    await using cluster = await started();

    // Output closes when the last process that could write to it is gone.
    expect(await cluster.program.end()).toEqual({ code: 0, signal: null });
  });

  test('SIGTERM with --shutdown-delay: no process is ready any more, and all continue to serve', async () => {
    const args = ['--processes', '2', '--shutdown-delay', '300'];
    await using cluster = await nodeCluster({ size: 1, args });
    const { program, nodes } = cluster;
    const statuses = (path: string) =>
      statusesOf(many(() => send(`http://127.0.0.1:${nodes[0]?.port}${path}`)));
    await vi.waitFor(async () => expect(await statuses('/readyz')).toEqual([200]), patient);

    program.kill('SIGTERM');
    await vi.waitFor(async () => expect(await statuses('/readyz')).toEqual([503]), patient);

    expect(await statuses('/healthz')).toEqual([200]);
    // A second signal ends the processes without a delay. Output closes with the last process.
    program.kill('SIGTERM');
    expect(await program.exited).toMatchObject({ signal: 'SIGTERM' });
  });

  test('when the supervisor is killed, the other processes end', async () => {
    await using cluster = await started();

    cluster.program.kill('SIGKILL');

    expect(await cluster.program.exited).toEqual({ code: null, signal: 'SIGKILL' });
  });

  test('a start that fails ends every process, with the message and the exit code of the failed one', async () => {
    await using cluster = await nodeCluster({ size: 1 });
    const file = serverLauncher;
    const port = String(cluster.nodes[0]?.port);
    const words = [
      '--database-url',
      cluster.databaseUrl,
      '--master-key-file',
      cluster.masterKeyFile,
    ];

    const ended = await runProgram(process.execPath, {
      args: [file, 'start', '--processes', '2', '--port', port, ...words],
    });

    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`latchkey-server: port ${port} is in use\n`),
    });
  });
});

describe('the number of processes or connections', () => {
  const postgres = '--database-url postgres://db/acme --master-key-file none';
  test.each([
    ['--processes 0', "--processes '0' is neither a number from 1 to 64 nor 'auto'"],
    ['--processes 65', "--processes '65' is neither a number from 1 to 64 nor 'auto'"],
    ['--processes two', "--processes 'two' is neither a number from 1 to 64 nor 'auto'"],
    [`${postgres} --database-connections 0`, '--database-connections must be at least 1'],
    [
      `${postgres} --database-connections 201`,
      "--database-connections '201' is not a whole number up to 200",
    ],
  ])('%s is refused', async (words, message) => {
    const ended = await runProgram(process.execPath, {
      args: [serverLauncher, 'start', ...words.split(' ')],
    });

    expect(ended).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`latchkey-server: ${message}\n`),
    });
  });
});
