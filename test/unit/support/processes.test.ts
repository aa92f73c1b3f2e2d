import { expect, test } from 'vitest';
import { runProgram, startProgram } from '#support/processes';

const node = (source: string, limits = {}) =>
  startProgram(process.execPath, { args: ['-e', source], ...limits });

test('program: a line of its output is found whether it comes before or after the wait begins', async () => {
  await using program = node(
    `console.log('ready on 1234'); process.stdin.on('data', (d) => console.error('got ' + d))`,
  );

  const [, port] = await program.line(/ready on (\d+)/);
  program.write('more\n');
  await program.line(/got more/, { stream: 'stderr' });
  const again = await program.line(/ready on/);

  expect(port).toBe('1234');
  expect(again[0]).toBe('ready on');
});

test('program: lines are delivered whole, however they were written', async () => {
  await using program = node(
    `process.stdin.once('data', () => { process.stdout.write('one\\ntw'); setTimeout(() => process.stdout.write('o\\nrest'), 20) })`,
  );
  const lines: string[] = [];
  program.onLine((line) => lines.push(line));

  program.write('go\n');
  program.endInput();
  await program.exited;

  expect(lines).toEqual(['one', 'two']);
});

test('program: waiting for a line fails immediately, with its output, when it exits', async () => {
  await using program = node(`console.error('no such option'); process.exitCode = 2`);

  const waiting = program.line(/listening/, { timeoutMs: 60_000 });

  await expect(waiting).rejects.toThrow(/no such option/);
  await expect(program.exited).resolves.toEqual({ code: 2, signal: null });
});

test('program: waiting for a line that does not come ends at the time limit', async () => {
  await using program = node(`setInterval(() => {}, 1000)`);

  await expect(program.line(/listening/, { timeoutMs: 50 })).rejects.toThrow(/50 ms/);
});

test('program: one that ignores SIGTERM is killed', async () => {
  const program = node(
    `process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1000)`,
    { endLimitMs: 100 },
  );
  await program.line(/up/);

  await expect(program.end()).resolves.toEqual({ code: null, signal: 'SIGKILL' });
});

test('program: one that does not exist ends like one that failed', async () => {
  const { code, stderr } = await runProgram('no-such-program');

  expect(code).toBeNull();
  expect(stderr).toContain('ENOENT');
});

test('program: it can be run to its end with environment variables added and removed', async () => {
  const { code, stdout } = await runProgram(process.execPath, {
    args: ['-p', `[process.env.ADDED, process.env.HOME].join()`],
    env: { ADDED: 'yes', HOME: undefined },
  });

  expect({ code, stdout }).toEqual({ code: 0, stdout: 'yes,\n' });
});
