import { expect, test } from 'vitest';
import { keychainSession } from '#support/keychain-session';
import { runProgram } from '#support/processes';
import { suite } from '#support/suite';

const store = `const { AsyncEntry } = require('@napi-rs/keyring');
  const entry = new AsyncEntry('latchkey-test', 'a', { linux: { store: 'secret-service' } });`;

await suite('keychain', 'keychain session of a test', () => {
  test('a secret set by one program is read by another, and invisible to other sessions', async () => {
    await using one = await keychainSession();
    await using other = await keychainSession();
    const run = (source: string, env: Readonly<Record<string, string>>) =>
      runProgram(process.execPath, {
        args: ['-e', `${store} ${source}`],
        env,
        cwd: import.meta.dirname,
      });

    await run(`entry.setPassword('kept').then(() => process.exit())`, one.env);
    const print = `entry.getPassword().then((value) => { console.log(value); process.exit() })`;

    expect((await run(print, one.env)).stdout).toBe('kept\n');
    expect((await run(print, other.env)).stdout).toBe('null\n');
  });
});
