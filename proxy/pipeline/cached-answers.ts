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

/** Stores the last answers of one MCP server to one account, for when the server cannot be used. */
export interface CachedAnswers {
  /** The bytes last stored for `key`; `undefined` if there are none or they cannot be read. */
  read(key: string): Promise<Buffer | undefined>;

  /**
   * Stores `answer` for `key` atomically. An answer that is too large or seems to contain a secret is not stored. A failing
   * disk is not an error.
   */
  keep(key: string, answer: Buffer): Promise<void>;

  /** Removes all answers of the server, including those to other accounts. They are stored again when it answers. */
  forget(): Promise<void>;
}

/** Cached answers as messages. Callers do not wait for the disk; reads see all earlier writes. */
export class RememberedAnswers {
  readonly #answers: CachedAnswers;
  #saving: Promise<unknown> = Promise.resolve();

  constructor(answers: CachedAnswers) {
    this.#answers = answers;
  }

  /** Stores a result. Errors are not stored. */
  keep(key: string, answer: Message): void {
    if (!answer.members.has('result')) return;
    // Waits until the answer has been sent to the assistant.
    this.#saving = this.#saving.then(async () => {
      await new Promise(setImmediate);
      // With a fixed id, the same result is always the same file.
      await this.#answers.keep(key, answerTo('0', answer).bytes);
    });
  }

  /** The last stored result; `undefined` if there is none or it cannot be read. */
  async last(key: string): Promise<Message | undefined> {
    await this.#saving;
    const bytes = await this.#answers.read(key);
    try {
      const message = bytes && readMessage(bytes);
      return message?.members.has('result') ? message : undefined;
    } catch (error) {
      if (error instanceof MessageError) return undefined;
      throw error;
    }
  }

  /** Resolves when everything is on disk. */
  async saved(): Promise<unknown> {
    return this.#saving;
  }
}

type ServerAccount = { url: string; account: string };

const maxAnswers = 64;
const maxBytes = 4 * 1024 * 1024;
/** The age at which the unfinished file of a process that crashed is removed. */
const abandonedMs = 60 * 60_000;

/**
 * Matches Latchkey's own keys and tokens, and any signed token (JWT). A letter may precede them, because JSON writes a line feed
 * as `\n`.
 */
const secretShape =
  /(?:secret|pk_live|mcp|code|rt|pat|scim)_[0-9A-Za-z]{36}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]+/;

/**
 * Answers as files that only this user can read (mode 0600), with a folder for each account below `directory`. File names
 * are hashes. Holds at most 64 answers of 4 MiB each and removes the oldest first.
 */
export function fileAnswers(directory: string, { url, account }: ServerAccount): CachedAnswers {
  // Loaded on first use: if the server can be reached, nothing is read or written before its answer.
  const tools = async () => {
    const [{ createHash }, files, { writeAtomically }] = await Promise.all([
      import('node:crypto'),
      import('node:fs/promises'),
      import('#atomic-file'),
    ]);
    const name = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40);
    const server = join(directory, name(url));
    const folder = join(server, name(account));
    return {
      files,
      server,
      folder,
      writeAtomically,
      at: (text: string) => join(folder, `${name(text)}.json`),
    };
  };
  type Tools = Awaited<ReturnType<typeof tools>>;

  async function prune({ files, folder }: Tools): Promise<void> {
    const names = await files.readdir(folder);
    if (names.length <= maxAnswers && names.every((name) => name.endsWith('.json'))) return;
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
    for (const { path } of [...whole.slice(maxAnswers), ...abandoned])
      await files.rm(path, { force: true });
  }

  return {
    async read(key) {
      const { files, at } = await tools();
      return files.readFile(at(key)).catch(() => undefined);
    },
    async keep(key, answer) {
      if (answer.length > maxBytes || secretShape.test(answer.toString('latin1'))) return;
      const found = await tools();
      const { files, folder, writeAtomically, at } = found;
      const path = at(key);
      try {
        const before = await files.readFile(path).catch(() => undefined);
        if (before?.equals(answer)) {
          const now = new Date();
          return await files.utimes(path, now, now);
        }
        await files.mkdir(folder, { recursive: true, mode: 0o700 });
        await writeAtomically(path, answer, { durable: false });
        await prune(found);
      } catch {
        // The file is needed only while the server cannot be used.
      }
    },
    async forget() {
      const { files, server } = await tools();
      await files.rm(server, { recursive: true, force: true });
    },
  };
}

/** The cached answers of the server at `url`, in this user's state directory. */
export function openCachedAnswers(
  { url, account }: ServerAccount,
  options: Options,
  host: UserHost,
): CachedAnswers {
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  return fileAnswers(join(stateDirectory, 'kept'), { url, account });
}

/** Forgets the cached answers of the server at `url`, and its era and transport. */
export async function forgetServer(
  cached: ServerAccount,
  options: Options,
  host: UserHost,
): Promise<void> {
  await openCachedAnswers(cached, options, host).forget();
  await openRememberedServer(cached.url, options, host).remember(undefined);
}

/**
 * The key of the cached answer to `request`. It contains all that the answer depends on besides server and account: the method, the
 * protocol version, the assistant's capabilities (in the legacy era, both from `initialize`) and the parameters without `_meta`.
 */
export function question(request: Message, initialize: Message | undefined): string {
  const { method } = request;
  const version = modernVersion(request);
  const assistant =
    version === undefined
      ? [
          initialize && stringAt(initialize, 'params', 'protocolVersion'),
          initialize && textAt(initialize, 'params', 'capabilities'),
        ]
      : [version, textAt(request, 'params', '_meta', 'io.modelcontextprotocol/clientCapabilities')];
  return JSON.stringify([method, ...assistant, method === 'initialize' ? [] : parameters(request)]);
}

function parameters({ bytes, members }: Message): [string, string][] {
  const span = members.get('params');
  return [...((span && jsonMembers(bytes, span)) ?? [])]
    .filter(([name]) => name !== '_meta')
    .map(([name, { start, end }]): [string, string] => [name, bytes.toString('utf8', start, end)])
    .sort(([one], [other]) => (one < other ? -1 : 1));
}
