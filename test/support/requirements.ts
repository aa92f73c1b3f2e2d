import { accessSync, constants } from 'node:fs';
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';

/** Something a machine may lack; a suite that needs it is skipped there, and says so. */
export interface Requirement {
  /** Why tests need it, as the end of "skipped: …". */
  readonly reason: string;
  /** How to install it, in one line. */
  readonly install: string;
  /** Commands that must be in PATH, or files that must exist; of several, separated by bars, one is enough. */
  readonly commands?: readonly string[];
  /** The address at which a server must listen. */
  readonly address?: { readonly host: string; readonly port: number };
  /** Whether the tests must run as root. */
  readonly isRoot?: boolean;
  /** A package that npm must be able to look up. */
  readonly npmPackage?: string;
}

/** The PostgreSQL server of the tests: TEST_POSTGRES_URL, else the role `postgres` on this machine without a password. */
export function postgresUrl(): string {
  return process.env['TEST_POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres';
}

/** The NATS server of the tests: TEST_NATS_URL, else the one on this machine. No test stops it. */
export function natsUrl(): string {
  return process.env['TEST_NATS_URL'] ?? 'nats://127.0.0.1:4222';
}

function addressOf(url: string, usualPort: number): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port || usualPort) };
}

export const requirements = {
  keychain: {
    reason: 'a real keychain needs a session bus and the Secret Service',
    install: 'apt-get install gnome-keyring dbus',
    commands: ['dbus-daemon', 'dbus-run-session', 'gnome-keyring-daemon'],
  },
  browser: {
    reason: 'pages are tested in a real browser',
    install: 'apt-get install chromium-headless-shell',
    commands: ['chromium-headless-shell|chromium'],
  },
  glewlwyd: {
    reason: 'people sign in at an identity provider that is not ours and not written in JavaScript',
    install: 'apt-get install glewlwyd dbconfig-sqlite3 chromium-headless-shell',
    commands: ['glewlwyd', 'chromium-headless-shell|chromium'],
  },
  nginx: {
    reason: 'the server is tested behind a real nginx',
    install: 'apt-get install nginx',
    commands: ['nginx'],
  },
  caddy: {
    reason: 'the server is tested behind a real Caddy',
    install: 'apt-get install caddy',
    commands: ['caddy'],
  },
  terminal: {
    reason: 'documented commands are run as a reader types them',
    install: 'apt-get install bash curl git openssl',
    commands: ['bash', 'curl', 'git', 'openssl'],
  },
  systemd: {
    reason: 'the documented unit is checked by systemd itself',
    install: 'apt-get install systemd',
    commands: ['systemd-analyze'],
  },
  postgres: {
    reason: 'what is stored is tested on PostgreSQL, too',
    install:
      'apt-get install postgresql, and set TEST_POSTGRES_URL to a role that may create databases',
    address: addressOf(postgresUrl(), 5432),
  },
  nats: {
    reason: 'nodes pass calls to each other over a real NATS server',
    install: 'apt-get install nats-server, and start it',
    address: addressOf(natsUrl(), 4222),
  },
  ownPostgres: {
    reason: 'PostgreSQL and NATS are killed on purpose, so a test starts servers of its own',
    install: 'apt-get install postgresql-15 nats-server',
    commands: ['/usr/lib/postgresql/15/bin/initdb', 'nats-server'],
  },
  networkNamespaces: {
    reason: 'networks are cut between nodes, each in a network namespace of its own',
    install: 'apt-get install iproute2, and run the tests as root',
    commands: ['ip'],
    isRoot: true,
  },
  mountNamespaces: {
    reason:
      'names are resolved with files of a test in the place of /etc/hosts and /etc/resolv.conf',
    install: 'apt-get install util-linux mount, and run the tests as root',
    commands: ['unshare', 'mount'],
    isRoot: true,
  },
  registry: {
    reason: 'a published package is installed from its registry',
    install: 'let npm reach its registry',
    npmPackage: '@napi-rs/keyring',
  },
} as const satisfies Record<string, Requirement>;

export type RequirementName = keyof typeof requirements;

/** The lacking command or port in words; `undefined` when everything is there. */
export async function lack({
  commands = [],
  address,
  isRoot = false,
  npmPackage,
}: Requirement): Promise<string | undefined> {
  if (isRoot && userInfo().uid !== 0) return 'not root';
  const absent = commands.find((command) => !command.split('|').some(inPath));
  if (absent) return `no '${absent}' in PATH`;
  if (address && !(await answers(address))) {
    return `nothing listens on ${address.host}:${address.port}`;
  }
  if (npmPackage !== undefined && !(await findsPackage(npmPackage)))
    return `npm cannot look up ${npmPackage}`;
  return undefined;
}

function findsPackage(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const args = ['view', name, 'version', '--fetch-retries=0'];
    execFile('npm', args, { timeout: 30_000 }, (error) => resolve(error === null));
  });
}

function inPath(command: string): boolean {
  return (isAbsolute(command) ? [''] : (process.env['PATH'] ?? '').split(delimiter)).some(
    (folder) => {
      try {
        accessSync(join(folder, command), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    },
  );
}

function answers(address: { host: string; port: number }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...address, timeout: 1000 });
    const finish = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => finish(true));
    socket.on('timeout', () => finish(false));
    socket.on('error', () => finish(false));
  });
}
