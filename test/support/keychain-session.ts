import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { runProgram, startProgram } from './processes.ts';
import { temporaryFolder } from './temporary-folder.ts';

const readAll = `const { findCredentials } = require('@napi-rs/keyring');
  const all = findCredentials('latchkey').map(({ account, password }) => [account, password]);
  console.log(JSON.stringify(all));
  process.exit();`;
const forgetOne = `const { Entry } = require('@napi-rs/keyring');
  const place = { linux: { store: 'secret-service' } };
  new Entry('latchkey', process.argv[1], place).deletePassword();
  process.exit();`;
const replaceOne = `const { Entry } = require('@napi-rs/keyring');
  const place = { linux: { store: 'secret-service' } };
  new Entry('latchkey', process.argv[1], place).setPassword(require('node:fs').readFileSync(0, 'utf8'));
  process.exit();`;
const entries = z.array(z.tuple([z.string(), z.string()]));

/** The configuration of a session bus that starts no program for a name. */
const busWithoutServices = `<busconfig>
  <type>session</type>
  <listen>unix:tmpdir=/tmp</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>`;

/** The service that the bus starts after the keyring has ended, instead of the machine's own, which would be locked. */
const secretService = (folder: string) => `[D-BUS Service]
Name=org.freedesktop.secrets
Exec=/bin/sh ${folder}/keyring.sh ${folder}
`;

/** The script of that service. */
const newKeyring = `if [ -e "$1/locks" ]
then exec gnome-keyring-daemon --start --foreground --components=secrets
else printf test | gnome-keyring-daemon --unlock --foreground --components=secrets
fi
`;

/** A session bus with an unlocked, empty keyring of its own; the person's keyring stays untouched. */
export interface KeychainSession extends AsyncDisposable {
  /** The environment of every program that uses this keyring. */
  readonly env: Readonly<Record<string, string>>;
  /** Ends the keyring but not the bus: from now on the keychain is unavailable. */
  readonly endKeyring: () => Promise<void>;
  /** Kills the keyring immediately, with SIGKILL. */
  readonly killKeyring: () => Promise<void>;
  /** The process id of the keyring. */
  readonly keyringPid: () => number;
  /** Starts the keyring again, unlocked, with its data on disk. */
  readonly startKeyring: () => Promise<void>;
  /** All secrets of Latchkey in the keyring, by account. */
  readonly contents: () => Promise<ReadonlyMap<string, string>>;
  /** Replaces the secret of an account. */
  readonly replace: (account: string, value: string) => Promise<void>;
  /** Removes the secret of an account. */
  readonly forget: (account: string) => Promise<void>;
}

/**
 * The keychain of `suite('keychain', …)`: D-Bus and gnome-keyring, as on a Linux desktop. A `locked` keyring has no collection yet, as
 * before a person's first sign-in. With `startsItself`, the bus starts a new keyring when a program asks for one that has ended:
 * locked after `endKeyring` and `killKeyring`, and unlocked after a crash, which gnome-keyring suffers now and then when programs
 * connect to it and disconnect at the same moment.
 */
export async function keychainSession({
  locked = false,
  startsItself = true,
} = {}): Promise<KeychainSession> {
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
  /** While this file exists, a keyring that the bus starts is locked. */
  const locks = join(folder, 'locks');
  if (locked) await writeFile(locks, '');
  await writeFile(join(folder, 'keyring.sh'), newKeyring);
  // The bus looks in this folder first.
  const services = join(folders.XDG_DATA_HOME, 'dbus-1/services');
  await mkdir(services, { recursive: true });
  await writeFile(join(services, 'org.freedesktop.secrets.service'), secretService(folder));
  const config = join(folder, 'bus.conf');
  await writeFile(config, busWithoutServices);
  const kind = startsItself ? '--session' : `--config-file=${config}`;
  const busArgs = [kind, '--nofork', '--nopidfile', '--print-address=1'];
  const bus = stack.use(
    startProgram('dbus-daemon', { args: [...busArgs, `--address=${address}`], env: folders }),
  );
  await bus.line(/^unix:/m);
  const env = { ...folders, DBUS_SESSION_BUS_ADDRESS: address };

  const startKeyring = async () => {
    const keyring = startProgram('gnome-keyring-daemon', {
      args: ['--foreground', ...(locked ? [] : ['--unlock']), '--components=secrets'],
      env,
    });
    keyring.write('test');
    keyring.endInput();
    await named('org.freedesktop.secrets', env).catch(async (error: unknown) => {
      await keyring.end();
      throw error;
    });
    return keyring;
  };
  let keyring = await startKeyring();
  stack.defer(async () => void (await keyring.end()));

  const started = stack.move();
  return {
    env,
    async endKeyring() {
      await writeFile(locks, '');
      await keyring.end();
    },
    async killKeyring() {
      await writeFile(locks, '');
      keyring.kill('SIGKILL');
      await keyring.exited;
    },
    keyringPid: () => keyring.pid,
    async startKeyring() {
      await rm(locks, { force: true });
      keyring = await startKeyring();
    },
    async contents() {
      for (let attempt = 1; ; attempt++) {
        const read = { args: ['-e', readAll], env, cwd: import.meta.dirname };
        const { stdout, stderr } = await runProgram(process.execPath, read);
        if (stdout !== '') return new Map(entries.parse(JSON.parse(stdout)));
        // The script lists the entries, then reads each. It fails if an entry disappears in between, or if the keyring crashes.
        if (!/UnknownMethod|without replying/.test(stderr) || attempt === 10)
          throw new Error(`the keyring cannot be read: ${stderr}`);
      }
    },
    async replace(account, value) {
      const run = { args: ['-e', replaceOne, account], env, cwd: import.meta.dirname };
      const program = startProgram(process.execPath, run);
      program.write(value);
      program.endInput();
      await program.exited;
      if (program.stderr !== '')
        throw new Error(`the keyring cannot keep ${account}: ${program.stderr}`);
    },
    async forget(account) {
      const { stderr } = await runProgram(process.execPath, {
        args: ['-e', forgetOne, account],
        env,
        cwd: import.meta.dirname,
      });
      if (stderr !== '') throw new Error(`the keyring cannot forget ${account}: ${stderr}`);
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** Waits until the daemon takes its name on the bus, which it does once the keyring is unlocked. */
async function named(name: string, env: Record<string, string>): Promise<void> {
  const ask = ['--session', '--print-reply', '--dest=org.freedesktop.DBus', '/'];
  const question = [...ask, 'org.freedesktop.DBus.NameHasOwner', `string:${name}`];
  for (let attempt = 0; attempt < 1000; attempt++) {
    const { stdout } = await runProgram('dbus-send', { args: question, env });
    if (stdout.includes('boolean true')) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nobody took the name ${name} on the session bus`);
}
