import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';

import { freePort } from '#support/loopback';
import { mcpCall, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { type Program, startProgram } from '#support/processes';
import { serverLauncher } from '#support/programs';
import { runCommandInProcess } from '#support/run-command-in-process';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { recordingUpstream, sendJson } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
upstream.answer = ({ body }, response) => {
  const id = /"id":(\d+)/.exec(body.toString())?.[1] ?? 'null';
  sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":{"content":[]}}`);
};

/** A server that writes its calls to `output`, given the folder of the test. */
async function writingServer({
  output,
  startedBy: [command, ...first] = [process.execPath],
}: {
  readonly output: (folder: string) => string;
  readonly startedBy?: readonly [string, ...string[]];
}) {
  const stack = new AsyncDisposableStack();
  onTestFinished(() => stack.disposeAsync());
  const { path } = stack.use(await temporaryFolder('output'));
  const data = ['--data-dir', join(path, 'data')];
  const administer = (...words: string[]) => runCommandInProcess([...words, ...data]);
  await administer('organization', 'create', 'acme');
  await administer('server', 'create', 'acme/fixture', '--http-url', upstream.url);
  const made = await administer('key', 'create', 'acme/fixture', '--name', 'k', '--json');
  const { key } = JSON.parse(made);
  const port = await freePort();
  const file = output(path);
  const program: Program = startProgram(command, {
    args: [
      ...first,
      serverLauncher,
      'start',
      '--port',
      String(port),
      ...data,
      '--call-log-output',
      file,
    ],
  });
  stack.defer(async () => void (await program.end()));
  await program.line(/^listening on /m, { stream: file === '-' ? 'stderr' : 'stdout' });
  return {
    program,
    file,
    call: async (tool: string) => {
      const body = rpc('tools/call', { name: tool });
      const headers = { 'mcp-protocol-version': '2025-06-18' };
      const url = `http://127.0.0.1:${port}/mcp/acme/fixture`;
      expect((await mcpCall(url, { key, body, headers })).status).toBe(200);
    },
  };
}

const toolsIn = (text: string): unknown[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line).tool);

test('activity: with --call-log-output -, stdout has a line of JSON for each call, and nothing else', async () => {
  const { program, call } = await writingServer({ output: () => '-' });
  await call('one');
  await call('two');
  const { code } = await program.end();

  expect(code).toBe(0);
  expect(toolsIn(program.stdout)).toEqual(['one', 'two']);
  expect(JSON.parse(program.stdout.split('\n')[0] ?? '')).toMatchObject({
    organization: 'acme',
    endpoint: 'fixture',
    credential: 'k',
    outcome: 'ok',
  });
  expect(program.stderr).toContain('data folder: ');
});

await suite('mountNamespaces', 'activity on a disk that is full', () => {
  test('activity: calls go on while the disk of --call-log-output is full, and then each is written once', async () => {
    const disk = await temporaryFolder('disk');
    onTestFinished(() => disk[Symbol.asyncDispose]());
    const mount = 'mount -t tmpfs -o size=16k none "$0" && exec "$@"';
    const { program, call, file } = await writingServer({
      output: () => join(disk.path, 'calls.jsonl'),
      startedBy: ['unshare', '-m', 'sh', '-c', mount, disk.path, process.execPath],
    });
    const seen = `/proc/${program.pid}/root${file}`;
    const tools = Array.from({ length: 45 }, (_, at) => `tool-${at}`);
    for (const tool of tools) await call(tool);
    await program.line(/ENOSPC.*calls not written to --call-log-output/, { stream: 'stderr' });
    await call('on a full disk');
    const before = readFileSync(seen, 'utf8');
    execFileSync('rm', [seen]);

    await vi.waitFor(() => {
      const whole = before.slice(0, before.lastIndexOf('\n') + 1);
      const written = toolsIn(whole + readFileSync(seen, 'utf8'));
      expect(written).toEqual([...tools, 'on a full disk']);
    }, patient);
    await program.line(/calls are written to --call-log-output again/, { stream: 'stderr' });
  });
});
