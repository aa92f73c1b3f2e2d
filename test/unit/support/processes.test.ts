import { expect, test } from 'vitest';
import { runProgram, startProgram } from '#support/processes';

const node = (source: string, limits = {}) =>
  startProgram(process.execPath, { args: ['-e', source], ...limits });

test('a line is found whether it comes before or after it is asked for', async () => {
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

test('lines are handed over whole, however they were written', async () => {
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

test('waiting for a line of a program that exits fails at once with its output', async () => {
  await using program = node(`console.error('no such option'); process.exitCode = 2`);

  const waiting = program.line(/listening/, { timeoutMs: 60_000 });

  await expect(waiting).rejects.toThrow(/no such option/);
  await expect(program.exited).resolves.toEqual({ code: 2, signal: null });
});

test('waiting for a line that does not come ends at its limit', async () => {
  await using program = node(`setInterval(() => {}, 1000)`);

  await expect(program.line(/listening/, { timeoutMs: 50 })).rejects.toThrow(/50 ms/);
});

test('a program that ignores SIGTERM is killed', async () => {
  const program = node(
    `process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1000)`,
    { endLimitMs: 100 },
  );
  await program.line(/up/);

  await expect(program.end()).resolves.toEqual({ code: null, signal: 'SIGKILL' });
});

test('a program that does not exist ends as one that failed', async () => {
  const { code, stderr } = await runProgram('no-such-program');

  expect(code).toBeNull();
  expect(stderr).toContain('ENOENT');
});

test('a program can be run to its end with variables added and taken away', async () => {
  const { code, stdout } = await runProgram(process.execPath, {
    args: ['-p', `[process.env.ADDED, process.env.HOME].join()`],
    env: { ADDED: 'yes', HOME: undefined },
  });

  expect({ code, stdout }).toEqual({ code: 0, stdout: 'yes,\n' });
});
