import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { runProgram, startProgram } from './processes.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A session bus with an unlocked, empty keyring of its own; nothing of the person's is touched. */
export interface KeychainSession extends AsyncDisposable {
  /** For every program that is to see this keyring. */
  readonly env: Readonly<Record<string, string>>;
  /** Ends the keyring but not the bus: from now on the keychain is unavailable. */
  readonly endKeyring: () => Promise<void>;
}

/**
 * What `suite('keychain', …)` tests against: D-Bus and gnome-keyring, as on a Linux desktop. A `locked`
 * one has no collection yet, as before a person's first sign-in.
 */
export async function keychainSession({ locked = false } = {}): Promise<KeychainSession> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('keychain'));
  const folders = {
    XDG_RUNTIME_DIR: join(folder, 'runtime'),
    XDG_DATA_HOME: join(folder, 'data'),
    XDG_CONFIG_HOME: join(folder, 'config'),
    XDG_CACHE_HOME: join(folder, 'cache'),
  };
  for (const path of Object.values(folders)) await mkdir(path, { mode: 0o700 });

  const address = `unix:path=${folder}/bus`;
  const busArgs = ['--session', '--nofork', '--nopidfile', '--print-address=1'];
  const bus = stack.use(
    startProgram('dbus-daemon', { args: [...busArgs, `--address=${address}`], env: folders }),
  );
  await bus.line(/^unix:/m);
  const env = { ...folders, DBUS_SESSION_BUS_ADDRESS: address };

  const keyring = stack.use(
    startProgram('gnome-keyring-daemon', {
      args: ['--foreground', ...(locked ? [] : ['--unlock']), '--components=secrets'],
      env,
    }),
  );
  keyring.write('test');
  keyring.endInput();
  await named('org.freedesktop.secrets', env);

  const started = stack.move();
  return {
    env,
    endKeyring: async () => {
      await keyring.end();
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** The daemon takes its name on the bus once the keyring is unlocked. */
async function named(name: string, env: Record<string, string>): Promise<void> {
  const ask = ['--session', '--print-reply', '--dest=org.freedesktop.DBus', '/'];
  const question = [...ask, 'org.freedesktop.DBus.NameHasOwner', `string:${name}`];
  for (let attempt = 0; attempt < 100; attempt++) {
    const { stdout } = await runProgram('dbus-send', { args: question, env });
    if (stdout.includes('boolean true')) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nobody took the name ${name} on the session bus`);
}
