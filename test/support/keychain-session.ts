import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runProgram, startProgram, type Program } from './processes.ts';

/** A session bus with an unlocked, empty keyring of its own; nothing of the person's is touched. */
export interface KeychainSession extends AsyncDisposable {
  /** For every program that is to see this keyring. */
  readonly env: Readonly<Record<string, string>>;
  /** Ends the keyring but not the bus: from now on the keychain is unavailable. */
  readonly endKeyring: () => Promise<void>;
}

/** What `suite('keychain', …)` tests against: D-Bus and gnome-keyring, as on a Linux desktop. */
export async function keychainSession(): Promise<KeychainSession> {
  const folder = await mkdtemp(join(tmpdir(), 'keychain-'));
  const folders = {
    XDG_RUNTIME_DIR: join(folder, 'runtime'),
    XDG_DATA_HOME: join(folder, 'data'),
    XDG_CONFIG_HOME: join(folder, 'config'),
    XDG_CACHE_HOME: join(folder, 'cache'),
  };
  for (const path of Object.values(folders)) await mkdir(path, { mode: 0o700 });

  const programs: Program[] = [];
  const dispose = async () => {
    for (const program of programs.toReversed()) await program.end();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const bus = startProgram('dbus-daemon', {
      args: [
        '--session',
        '--nofork',
        '--nopidfile',
        '--print-address=1',
        `--address=unix:path=${folder}/bus`,
      ],
      env: folders,
    });
    programs.push(bus);
    const [address] = await bus.line(/^unix:\S+/m);
    const env = { ...folders, DBUS_SESSION_BUS_ADDRESS: address };

    const keyring = startProgram('gnome-keyring-daemon', {
      args: ['--foreground', '--unlock', '--components=secrets'],
      env,
    });
    programs.push(keyring);
    keyring.write('test');
    keyring.endInput();
    await named('org.freedesktop.secrets', env);
    return {
      env,
      endKeyring: async () => {
        await keyring.end();
      },
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
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
