import { createHash } from 'node:crypto';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { Clock } from '#model/clock';
import { isMissing } from '#model/running-user';

/**
 * Programs for computers without Node.js, which the operator builds on each system and puts into a folder: executables of the proxy
 * as `PLATFORM-ARCH/latchkey`, and packages of the tray app.
 *
 * A build writes `FILE.json` beside each of them, with the version and the SHA-256. A file without it, or with another digest, is
 * not offered: it may be a copy that was interrupted.
 */
export interface ProgramFile {
  readonly kind: 'executable' | 'app';
  /** The last part of its URL, and the name that it is saved under. */
  readonly fileName: string;
  readonly platform: ProgramPlatform;
  readonly arch: string;
  /** The version that it was built from. */
  readonly version: string;
  readonly size: number;
  /** In hexadecimal. */
  readonly sha256: string;
}

export type ProgramPlatform = 'linux' | 'darwin' | 'win32';

const platforms: Readonly<Record<string, ProgramPlatform>> = {
  linux: 'linux',
  darwin: 'darwin',
  win32: 'win32',
  // As electron-builder names them.
  mac: 'darwin',
  win: 'win32',
};

const descriptionSchema = z.object({
  version: z.string().regex(/^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]{1,40})?$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

const mostDescriptionBytes = 4096;
const mostFileBytes = 1024 ** 3;
/** How many files a folder may offer. */
const mostFiles = 50;
/** For how long a list of files is used before the folders are read again. */
const lookAgainSeconds = 10;

interface Candidate extends Pick<ProgramFile, 'kind' | 'platform' | 'arch'> {
  readonly path: string;
  /** The name under which it is offered, if it does not depend on the version. */
  readonly fileName?: string;
}

/** The result of reading a path. */
interface Read {
  /** Changes with the file and with its description. */
  readonly state: string;
  /** `undefined` if the file is not offered. */
  readonly program: ProgramFile | undefined;
}

export interface ProgramFilesPorts {
  readonly clock: Clock;
  /** Called with the reason why a file is not offered, once for each content of it. */
  readonly failed: (path: string, error: unknown) => void;
}

/** The programs in some folders. The folders may be missing, and their files may change at any time. */
export class ProgramFiles {
  readonly #folders: readonly string[];
  readonly #ports: ProgramFilesPorts;
  #read = new Map<string, Read>();
  #listed: { readonly at: number; readonly programs: Promise<readonly ProgramFile[]> } | undefined;
  /** Only one reading runs at a time: digests of large files take longer than `lookAgainSeconds`, and every visitor wants a list. */
  #reading: Promise<readonly ProgramFile[]> | undefined;

  /** Of files with the same name, the one in the first folder is offered. */
  constructor(folders: readonly string[], ports: ProgramFilesPorts) {
    this.#folders = folders;
    this.#ports = ports;
  }

  /** Lists the programs, executables first. The digest of a new file is computed once, which takes about a second for 300 MB. */
  async list(): Promise<readonly ProgramFile[]> {
    const now = this.#ports.clock.now();
    if (!this.#listed || now - this.#listed.at >= lookAgainSeconds) {
      this.#reading ??= this.#readFolders().finally(() => {
        this.#reading = undefined;
      });
      this.#listed = { at: now, programs: this.#reading };
    }
    return this.#listed.programs;
  }

  /**
   * The content of a program of the list; `undefined` if its file was replaced or removed since. The stream closes the file.
   */
  async open(program: ProgramFile): Promise<Readable | undefined> {
    const [path, read] = [...this.#read].find(([, one]) => one.program === program) ?? [];
    const file = path === undefined ? undefined : await open(path).catch(() => undefined);
    if (!file) return undefined;
    if (read?.state.startsWith(`${await identityOf(file)} `)) {
      return file.createReadStream({ start: 0, end: program.size - 1 });
    }
    await file.close();
    // The next list has the new content.
    this.#listed = undefined;
    return undefined;
  }

  async #readFolders(): Promise<readonly ProgramFile[]> {
    const candidates = (await Promise.all(this.#folders.map(candidatesIn))).flat();
    const reads = new Map<string, Read>();
    // One after the other, so that several large files do not occupy all threads for files.
    for (const candidate of candidates.slice(0, mostFiles)) {
      const read = await this.#describe(candidate);
      if (read) reads.set(candidate.path, read);
    }
    this.#read = reads;
    const programs = new Map<string, ProgramFile>();
    for (const { program } of reads.values()) {
      if (program && !programs.has(program.fileName)) programs.set(program.fileName, program);
    }
    return [...programs.values()].sort(
      (a, b) => b.kind.localeCompare(a.kind) || a.fileName.localeCompare(b.fileName),
    );
  }

  /** @returns `undefined` if there is no such file */
  async #describe(candidate: Candidate): Promise<Read | undefined> {
    const { path } = candidate;
    const before = this.#read.get(path);
    let state = '';
    let file: FileHandle | undefined;
    try {
      file = await open(path);
      const description = await startOf(`${path}.json`);
      state = `${await identityOf(file)} ${description ?? ''}`;
      if (before?.state === state) return before;
      return { state, program: await programOf(candidate, file, description) };
    } catch (error) {
      if (file === undefined && isMissing(error)) return undefined;
      const failed = state || String(error);
      if (before?.state !== failed) this.#ports.failed(path, error);
      return { state: failed, program: undefined };
    } finally {
      await file?.close();
    }
  }
}

const appName = /^Latchkey-(linux|mac|win)-([a-z0-9_]{1,20})\.(?:AppImage|deb|dmg|zip|exe)$/;
const executableFolder = /^(linux|darwin|win32)-([a-z0-9]{1,20})$/;

async function candidatesIn(folder: string): Promise<readonly Candidate[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .sort((a, b) => a.localeCompare(b))
    .flatMap((name): readonly Candidate[] => {
      const [, os = '', osArch = ''] = executableFolder.exec(name) ?? [];
      const platform = platforms[os];
      if (platform) {
        const path = join(folder, name, platform === 'win32' ? 'latchkey.exe' : 'latchkey');
        return [{ kind: 'executable', platform, arch: osArch, path }];
      }
      const [, appOs = '', arch = ''] = appName.exec(name) ?? [];
      const appPlatform = platforms[appOs];
      if (!appPlatform) return [];
      const path = join(folder, name);
      return [{ kind: 'app', platform: appPlatform, arch, path, fileName: name }];
    });
}

/** @throws {Error} if the file is not offered, with the reason */
async function programOf(
  { kind, platform, arch, path, fileName }: Candidate,
  file: FileHandle,
  description: string | undefined,
): Promise<ProgramFile> {
  const found = await file.stat();
  if (!found.isFile()) throw new Error('it is not a file');
  if (found.size === 0 || found.size > mostFileBytes) {
    throw new Error(`it has ${found.size} bytes: between 1 and ${mostFileBytes} are allowed`);
  }
  if (description === undefined) {
    throw new Error(`${path}.json is missing: copy it, too, from the folder of the build`);
  }
  const described = descriptionSchema.safeParse(jsonIn(description));
  if (!described.success) {
    throw new Error(`${path}.json has no version and SHA-256: build the program again`);
  }
  const { version, sha256 } = described.data;
  const digest = await digestOf(file);
  if (digest !== sha256) {
    throw new Error(`its SHA-256 is ${digest}, not that of ${path}.json: copy both again`);
  }
  const extension = platform === 'win32' ? '.exe' : '';
  return {
    kind,
    fileName: fileName ?? `latchkey-${version}-${platform}-${arch}${extension}`,
    platform,
    arch,
    version,
    size: found.size,
    sha256,
  };
}

/** The text of a small file, without what exceeds the limit; `undefined` if there is none. */
async function startOf(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(path);
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(mostDescriptionBytes) });
    return buffer.toString('utf8', 0, bytesRead);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  } finally {
    await file?.close();
  }
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function digestOf(file: FileHandle): Promise<string> {
  const hash = createHash('sha256');
  const content = file.createReadStream({ start: 0, autoClose: false, highWaterMark: 1024 ** 2 });
  for await (const part of content) hash.update(part);
  return hash.digest('hex');
}

async function identityOf(file: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeMs, ctimeMs } = await file.stat();
  return [dev, ino, size, mtimeMs, ctimeMs].join(':');
}
