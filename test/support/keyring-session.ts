import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type KeyringSession = {
  /** What a process needs in its environment to reach this keyring and no other. */
  env: Record<string, string>;
  [Symbol.asyncDispose](): Promise<void>;
};

const commands = ['dbus-daemon', 'dbus-send', 'gnome-keyring-daemon'];

/** Why no keyring can be started here; `undefined` when it can. On CI that is a failure instead. */
export function keyringMissing(): string | undefined {
  const missing = commands.filter((command) => !isOnPath(command));
  if (missing.length === 0) return undefined;
  const reason = `${missing.join(' and ')} not found (Debian: dbus, gnome-keyring)`;
  if (process.env['CI']) throw new Error(reason);
  return reason;
}

/** A private session bus with an unlocked keyring of its own, both ended by their own pids. */
export async function keyringSession({ locked = false } = {}): Promise<KeyringSession> {
  const directory = mkdtempSync(join(tmpdir(), 'keyring-'));
  const env: Record<string, string> = {};
  for (const name of ['RUNTIME_DIR', 'DATA_HOME', 'CONFIG_HOME', 'CACHE_HOME']) {
    env[`XDG_${name}`] = join(directory, name);
    mkdirSync(join(directory, name), { mode: 0o700 });
  }
  const PATH = process.env['PATH'] ?? '';
  const bus = spawn('dbus-daemon', ['--session', '--nofork', '--print-address=1'], {
    env: { ...env, PATH },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [address]: Buffer[] = await once(bus.stdout, 'data');
  env['DBUS_SESSION_BUS_ADDRESS'] = String(address).trim();
  const unlock = locked ? [] : ['--unlock'];
  const keyring = spawn(
    'gnome-keyring-daemon',
    ['--foreground', ...unlock, '--components=secrets'],
    { env: { ...env, PATH }, stdio: ['pipe', 'ignore', 'ignore'] },
  );
  keyring.stdin.end('password');
  while (!(await ownsName({ ...env, PATH }))) await setTimeout(20);
  return {
    env,
    async [Symbol.asyncDispose]() {
      for (const child of [keyring, bus]) {
        const gone = child.exitCode === null ? once(child, 'exit') : undefined;
        child.kill('SIGKILL');
        await gone;
      }
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Whether the keyring has come up; asking for a secret earlier would start a second one. */
async function ownsName(env: Record<string, string>): Promise<boolean> {
  const bus = 'org.freedesktop.DBus';
  const { stdout } = await run(
    'dbus-send',
    [
      '--print-reply',
      `--dest=${bus}`,
      '/',
      `${bus}.NameHasOwner`,
      'string:org.freedesktop.secrets',
    ],
    { env },
  );
  return stdout.includes('boolean true');
}

function isOnPath(command: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
