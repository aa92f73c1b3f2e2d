import { join } from 'node:path';
import type { KeptAnswers } from './kept-answers.ts';

/** One account at one server. */
export type KeptFor = { url: string; account: string };

const mostAnswers = 64;
const mostBytes = 4 * 1024 * 1024;
/** A half-written file that its process did not live to rename. */
const abandonedMs = 60 * 60_000;

/**
 * What this product hands out, and signed tokens of anybody. Also in the middle of a word, as a line feed
 * before one is the letter `n` in JSON.
 */
const secretShape =
  /(?:secret|pk_live|mcp|code|rt|pat)_[0-9A-Za-z]{36}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]+/;

/**
 * Answers as files of this user alone (mode 0600), one folder an account below `directory`. File names
 * are hashes. At most 64 answers of 4 MiB each stay, the oldest go first.
 */
export function fileAnswers(directory: string, { url, account }: KeptFor): KeptAnswers {
  // Loaded when first used: a start that finds its server reads and writes nothing before the answer.
  const tools = async () => {
    const [{ createHash, randomUUID }, files] = await Promise.all([
      import('node:crypto'),
      import('node:fs/promises'),
    ]);
    const name = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40);
    const server = join(directory, name(url));
    const folder = join(server, name(account));
    return {
      files,
      server,
      folder,
      randomUUID,
      at: (text: string) => join(folder, `${name(text)}.json`),
    };
  };
  type Tools = Awaited<ReturnType<typeof tools>>;

  async function prune({ files, folder }: Tools): Promise<void> {
    const names = await files.readdir(folder);
    if (names.length <= mostAnswers && names.every((name) => name.endsWith('.json'))) return;
    const found = await Promise.all(
      names.map(async (name) => {
        const path = join(folder, name);
        const changedMs = (await files.stat(path).catch(() => undefined))?.mtimeMs ?? 0;
        return { path, whole: name.endsWith('.json'), changedMs };
      }),
    );
    const whole = found.filter((file) => file.whole).sort((a, b) => b.changedMs - a.changedMs);
    const abandoned = found.filter(
      (file) => !file.whole && file.changedMs < Date.now() - abandonedMs,
    );
    for (const { path } of [...whole.slice(mostAnswers), ...abandoned])
      await files.rm(path, { force: true });
  }

  return {
    async read(question) {
      const { files, at } = await tools();
      return files.readFile(at(question)).catch(() => undefined);
    },
    async keep(question, answer) {
      if (answer.length > mostBytes || secretShape.test(answer.toString('latin1'))) return;
      const found = await tools();
      const { files, folder, randomUUID, at } = found;
      const path = at(question);
      try {
        const before = await files.readFile(path).catch(() => undefined);
        if (before?.equals(answer)) {
          const now = new Date();
          return await files.utimes(path, now, now);
        }
        await files.mkdir(folder, { recursive: true, mode: 0o700 });
        const written = join(folder, `${randomUUID()}.part`);
        await files.writeFile(written, answer, { flag: 'wx', mode: 0o600 });
        await files.rename(written, path);
        await prune(found);
      } catch {
        // A full or read-only disk costs the start without a server, and nothing else.
      }
    },
    async forget() {
      const { files, server } = await tools();
      await files.rm(server, { recursive: true, force: true });
    },
  };
}
