import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** How a server wants to be spoken to, where that is not the way that is tried first. */
export type ServerKind = 'modern' | 'sse';

/** What is remembered of one server from run to run. */
export interface RememberedServer {
  recall(): ServerKind | undefined;

  /** `undefined` forgets. What cannot be kept costs the next start a request, so it never fails. */
  remember(kind: ServerKind | undefined): Promise<void>;
}

/** One small file for each server in `directory`; it holds nothing but the kind. */
export function rememberedServer(directory: string, url: string): RememberedServer {
  // Two URLs that share a name mislead each other, which costs a request and no more.
  const name = encodeURIComponent(url).replaceAll('%', '_').slice(-180);
  const path = join(directory, name);
  return {
    // Asked at every start, and mostly there is no such file.
    recall() {
      try {
        const kind = readFileSync(path, 'utf8').trim();
        return kind === 'modern' || kind === 'sse' ? kind : undefined;
      } catch {
        return undefined;
      }
    },
    async remember(kind) {
      const { mkdir, rm, writeFile } = await import('node:fs/promises');
      try {
        if (kind === undefined) return await rm(path, { force: true });
        await mkdir(directory, { recursive: true, mode: 0o700 });
        await writeFile(path, kind, { mode: 0o600 });
      } catch {
        // A state directory that cannot be written is reported by what needs it.
      }
    },
  };
}
