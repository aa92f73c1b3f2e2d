import { join } from 'node:path';
import { expect, test } from 'vitest';
import { latchkeyHome } from '#support/latchkey-home';
import { runProgram } from '#support/processes';
import { launcher } from '#support/proxy-process';

test('shell completion: commands, assistants, options and connection names are completed', async () => {
  await using home = await latchkeyHome({});
  await home.write(
    '.config/latchkey/connections.json',
    '{"mcpServers":{"sales":{"url":"https://a.example/mcp"},"$(touch x)":{}}}',
  );
  const { stdout: script, code } = await home.run(['completion', 'bash']);
  await home.write('bin/latchkey', `#!/bin/sh\nexec ${process.execPath} ${launcher} "$@"\n`);
  await home.write('completion.bash', script);
  const completed = async (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(' ');
    const lines = `chmod +x bin/latchkey; . ./completion.bash
      COMP_WORDS=(latchkey ${list}); COMP_CWORD=${words.length}; _latchkey; echo "\${COMPREPLY[@]}"`;
    const { stdout } = await runProgram('bash', {
      args: ['-c', lines],
      cwd: home.path,
      env: {
        ...home.env,
        PATH: `${join(home.path, 'bin')}:${process.env['PATH'] ?? ''}`,
        XDG_CONFIG_HOME: undefined,
      },
    });
    return stdout.trim().split(' ');
  };

  expect(code).toBe(0);
  expect(await completed('in')).toEqual(['install']);
  expect(await completed('s')).toEqual(['setup', 'servers', 'status', 'sales']);
  expect(await completed('install', 'c')).toEqual([
    'claude-desktop',
    'claude-code',
    'cursor',
    'codex',
    'copilot-cli',
  ]);
  expect(await completed('install', 'cursor', 's')).toEqual(['sales']);
  expect(await completed('status', '--j')).toEqual(['--json']);
  expect(await completed('agent', 'in')).toEqual(['install']);
  expect(await completed('agent', '--dr')).toEqual(['--dry-run']);
  expect(await home.read('x')).toBeUndefined();
});

test.each(['bash', 'zsh'])('shell completion: the script for %s covers them all', async (shell) => {
  await using home = await latchkeyHome({});

  const { stdout, code } = await home.run(['completion', shell]);

  expect(code).toBe(0);
  for (const word of ['install', 'import', 'claude-desktop', '--json', '__names'])
    expect(stdout).toContain(word);
  expect(stdout).not.toContain('undefined');
});
