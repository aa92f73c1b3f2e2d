import { join } from 'node:path';
import {
  answerTo,
  MessageError,
  modernVersion,
  readMessage,
  stringAt,
  textAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import { jsonMembers } from 'latchkey-mcp/json';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import { openRememberedServer } from './detect-server.ts';

/** Keeps what one MCP server last answered to one account, for the next time it cannot be asked. */
export interface CachedAnswers {
  /** The bytes last kept for `key`; `undefined` when there are none, or none that can be read. */
  read(key: string): Promise<Buffer | undefined>;

  /**
   * Replaces what was kept for `key`, whole or not at all. What is too large, or looks as if it
   * held a secret, is not kept; a disk that takes nothing is not an error.
   */
  keep(key: string, answer: Buffer): Promise<void>;

  /** Forgets every answer of that server, also to other accounts: they are kept again when it is asked. */
  forget(): Promise<void>;
}

/** Kept answers as messages; what is written is read in that order, without anybody waiting for the disk. */
export interface RememberedAnswers {
  /** Keeps a result; errors are not worth it. */
  keep(key: string, answer: Message): void;

  /** The result last kept; `undefined` when there is none that can be read. */
  last(key: string): Promise<Message | undefined>;

  /** Resolves when everything is on disk. */
  saved(): Promise<unknown>;
}

export function rememberedAnswers(answers: CachedAnswers): RememberedAnswers {
  let saving: Promise<unknown> = Promise.resolve();
  return {
    keep(key, answer) {
      if (!answer.members.has('result')) return;
      // After the answer, which the assistant waits for.
      saving = saving.then(async () => {
        await new Promise(setImmediate);
        // The same result under another id is the same file.
        await answers.keep(key, answerTo('0', answer).bytes);
      });
    },
    async last(key) {
      await saving;
      const bytes = await answers.read(key);
      try {
        const message = bytes && readMessage(bytes);
        return message?.members.has('result') ? message : undefined;
      } catch (error) {
        if (error instanceof MessageError) return undefined;
        throw error;
      }
    },
    saved: async () => saving,
  };
}

/** One account at one server. */
type ServerAccount = { url: string; account: string };

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
export function fileAnswers(directory: string, { url, account }: ServerAccount): CachedAnswers {
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
    async read(key) {
      const { files, at } = await tools();
      return files.readFile(at(key)).catch(() => undefined);
    },
    async keep(key, answer) {
      if (answer.length > mostBytes || secretShape.test(answer.toString('latin1'))) return;
      const found = await tools();
      const { files, folder, randomUUID, at } = found;
      const path = at(key);
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

/** The answers that this user's host caches of the server at `url`. */
export function openCachedAnswers(
  { url, account }: ServerAccount,
  options: Options,
  host: UserHost,
): CachedAnswers {
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  return fileAnswers(join(stateDirectory, 'kept'), { url, account });
}

/** Forgets what the server at `url` answered to `account`, and which era and transport it speaks. */
export async function forgetServer(
  cached: ServerAccount,
  options: Options,
  host: UserHost,
): Promise<void> {
  await openCachedAnswers(cached, options, host).forget();
  await openRememberedServer(cached.url, options, host).remember(undefined);
}

/**
 * What the answer to `request` depends on besides server and account: the method, the protocol version,
 * the capabilities of the assistant, and the parameters, `_meta` aside. In the session era the first
 * ones are those of `initialize`.
 */
export function question(request: Message, initialize: Message | undefined): string {
  const { method } = request;
  const version = modernVersion(request);
  const who =
    version === undefined
      ? [
          initialize && stringAt(initialize, 'params', 'protocolVersion'),
          initialize && textAt(initialize, 'params', 'capabilities'),
        ]
      : [version, textAt(request, 'params', '_meta', 'io.modelcontextprotocol/clientCapabilities')];
  return JSON.stringify([method, ...who, method === 'initialize' ? [] : parameters(request)]);
}

function parameters({ bytes, members }: Message): [string, string][] {
  const span = members.get('params');
  return [...((span && jsonMembers(bytes, span)) ?? [])]
    .filter(([name]) => name !== '_meta')
    .map(([name, { start, end }]): [string, string] => [name, bytes.toString('utf8', start, end)])
    .sort(([one], [other]) => (one < other ? -1 : 1));
}
