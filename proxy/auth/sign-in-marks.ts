import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock, EpochSeconds } from '#clock/clock';

/** The server's message, and when it came. */
export type MissingAccount = { message: string; at: EpochSeconds };

const daySeconds = 86_400;
const missingAccountSeconds = 3600;

/**
 * Keeps marks as small files in `directory`. Claims are created exclusively, so that only one process succeeds. A
 * process that loses its secrets when it ends is `forgetful`: it ignores earlier sign-ins. `listed` is the URL that
 * {@link signedInUrls} returns for this connection.
 */
export function fileMarks(
  directory: string,
  url: string,
  clock: Clock,
  forgetful = false,
  listed = '',
) {
  let signedIn = false;
  // URLs with the same file name share their marks; at worst, a person sees one fewer sign-in page.
  const name = encodeURIComponent(url).replaceAll('%', '_').slice(-180);
  const at = (mark: string) => join(directory, `${name}.${mark}`);
  const files = async () => import('node:fs/promises');

  async function write(path: string, text: string, flag: 'w' | 'wx'): Promise<boolean> {
    const { mkdir, writeFile } = await files();
    await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      await writeFile(path, text, { flag, mode: 0o600 });
      return true;
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
      throw error;
    }
  }

  async function read(path: string): Promise<string> {
    const { readFile } = await files();
    return readFile(path, 'utf8').catch(() => '');
  }

  /** Succeeds once in any 24 hours, for the process that creates that day's file. */
  async function claim(what: 'opened' | 'noticed'): Promise<boolean> {
    const now = clock.now();
    const day = Math.floor(now / daySeconds);
    const yesterday = Number(await read(at(`${what}-${day - 1}`)));
    if (yesterday > now - daySeconds) return false;
    if (!(await write(at(`${what}-${day}`), String(now), 'wx'))) return false;
    const { rm } = await files();
    await rm(at(`${what}-${day - 1}`), { force: true });
    return true;
  }

  return {
    /** Whether a person has ever signed in here. Called at every start, so it only checks for a file. */
    signedInBefore: () => (signedIn ||= !forgetful && existsSync(at('signed-in'))),
    async rememberSignedIn(): Promise<void> {
      signedIn = true;
      if (!forgetful) await write(at('signed-in'), listed, 'w');
      const { rm } = await files();
      await rm(at('scopes'), { force: true });
    },
    /** Called at a sign-out: the connection is no longer listed as one with a sign-in. */
    async forgetListed(): Promise<void> {
      if (existsSync(at('signed-in'))) await write(at('signed-in'), '', 'w');
    },
    /** Claims the right to open the browser unasked. `true` once in 24 hours, for the first process that asks. */
    claimToday: async () => claim('opened'),
    /** Claims the right to show a notice. `true` once in 24 hours, for the first process that asks. */
    claimNotice: async () => claim('noticed'),
    /** Keeps scopes that a server required, for the next sign-in. */
    async wantScopes(scopes: readonly string[]): Promise<void> {
      await write(at('scopes'), scopes.join(' '), 'w');
    },
    wantedScopes: async () => (await read(at('scopes'))).split(' ').filter(Boolean),
    /** Stores the server's message that the MCP server behind it needs an account or a key of the person; `undefined` deletes it. */
    async noteMissingAccount(words: string | undefined): Promise<void> {
      if (words !== undefined)
        return void (await write(at('account'), `${clock.now()} ${words}`, 'w'));
      const { rm } = await files();
      await rm(at('account'), { force: true });
    },
    /** The message that `noteMissingAccount` stored, for one hour, because the person may connect the account in the meantime. */
    async missingAccount(): Promise<MissingAccount | undefined> {
      const [, seconds, message] = /^(\d+) (.+)$/s.exec(await read(at('account'))) ?? [];
      const notedAt = Number(seconds);
      if (message === undefined || notedAt + missingAccountSeconds <= clock.now()) return undefined;
      return { message, at: notedAt };
    },
  };
}

/** The marks that all processes of this host share about the sign-ins of a connection. Contains no secrets. */
export type SignInMarks = ReturnType<typeof fileMarks>;

/**
 * The URLs that a person is still signed in to and uses directly, without an entry in a configuration file.
 */
export async function signedInUrls(directory: string): Promise<string[]> {
  const { readFile, readdir } = await import('node:fs/promises');
  const names = await readdir(directory).catch((): string[] => []);
  const marks = names.filter((name) => name.endsWith('.signed-in')).sort();
  const texts = await Promise.all(
    marks.map(async (name) => readFile(join(directory, name), 'utf8').catch(() => '')),
  );
  return [...new Set(texts.filter(Boolean))];
}
