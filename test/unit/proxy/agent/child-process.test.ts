import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '#support/temporary-folder';

const startChild = pathToFileURL(
  join(import.meta.dirname, '../../../../proxy/agent/child-process.ts'),
).href;

/**
 * The processes that Node starts for `command`, and then to end it, when Node believes that it runs on Windows. Node and the
 * library determine the platform when they start, so this needs a process of its own.
 */
async function startedOnWindows(folder: string, command: string, args: readonly string[]) {
  const script = `
    Object.defineProperty(process, 'platform', { value: 'win32' });
    const childProcess = (await import('node:child_process')).default;
    const { syncBuiltinESMExports } = await import('node:module');
    const { spawn } = childProcess;
    const started = [];
    let child;
    childProcess.spawn = (command, args, { windowsVerbatimArguments = false }) => {
      started.push({ command, args, windowsVerbatimArguments });
      if (child) child.kill('SIGKILL');
      else return (child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']));
      return spawn(process.execPath, ['-e', '']);
    };
    syncBuiltinESMExports();
    const { startChild } = await import(${JSON.stringify(startChild)});
    const nothing = () => {};
    const running = await startChild(
      { command: ${JSON.stringify(command)}, args: ${JSON.stringify(args)}, env: { Path: ${JSON.stringify(folder)} } },
      {
        guard: { watch: nothing, forget: nothing },
        clock: { sleep: async () => {} },
        log: { debug: nothing },
        platform: 'win32',
        maxMessageBytes: 1000,
      },
    );
    await running.end();
    process.stdout.write(JSON.stringify({ started, pid: child.pid }));
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--no-warnings', '--input-type=module', '-e', script],
    { env: {} },
  );
  const { started, pid }: { started: unknown[]; pid: number } = JSON.parse(stdout);
  return { started, pid };
}

async function program(folder: string, name: string): Promise<void> {
  await writeFile(join(folder, name), '');
  await chmod(join(folder, name), 0o755);
}

test('start child: on Windows, a .cmd file runs through cmd.exe, with escaped arguments', async () => {
  await using folder = await temporaryFolder();
  await program(folder.path, 'npx.CMD');

  const { started } = await startedOnWindows(folder.path, 'npx', ['-y', 'two words', '%PATH%&"']);

  expect(started[0]).toEqual({
    command: 'cmd.exe',
    args: ['/d', '/s', '/c', '"npx ^"-y^" ^"two^ words^" ^"^%PATH^%^&\\^"^""'],
    windowsVerbatimArguments: true,
  });
});

test('start child: on Windows, an .exe file is started directly', async () => {
  await using folder = await temporaryFolder();
  await program(folder.path, 'server.EXE');

  const { started } = await startedOnWindows(folder.path, 'server', ['two words']);

  expect(started[0]).toEqual({
    command: 'server',
    args: ['two words'],
    windowsVerbatimArguments: false,
  });
});

test('start child: on Windows, the processes that a child started are ended with it', async () => {
  await using folder = await temporaryFolder();
  await program(folder.path, 'npx.CMD');

  const { started, pid } = await startedOnWindows(folder.path, 'npx', []);

  expect(started[1]).toMatchObject({
    command: 'taskkill',
    args: ['/pid', String(pid), '/t', '/f'],
  });
});
