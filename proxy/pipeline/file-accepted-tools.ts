import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AcceptedTool, AcceptedTools, AcceptedToolStore } from './accepted-tools.ts';
import { toolParts, type ToolFingerprint } from './tool-fingerprint.ts';

/**
 * One file a server, readable by this user alone. A reader sees the old or the new one, whole.
 *
 *     {"url":"https://…","tools":{"echo":{"accepted":{…},"acceptedAt":1800000000}}}
 */
export function fileAcceptedTools(directory: string, url: string): AcceptedToolStore {
  const name = createHash('sha256').update(url).digest('hex').slice(0, 32);
  const path = join(directory, `${name}.json`);
  return {
    async read() {
      const text = await readFile(path, 'utf8').catch((error: unknown) => {
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
        throw error;
      });
      return text === undefined ? new Map() : parse(text, path);
    },
    async write(tools) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const draft = `${path}.${randomUUID()}`;
      const text = JSON.stringify({ url, tools: Object.fromEntries(tools) });
      try {
        await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
        await rename(draft, path);
      } catch (error) {
        await rm(draft, { force: true });
        throw error;
      }
    },
  };
}

function parse(text: string, path: string): AcceptedTools {
  const { tools } = membersOf(json(text));
  if (typeof tools !== 'object' || tools === null) throw new Error(`${path} is damaged`);
  const entries = Object.entries(tools).map(([name, value]): [string, AcceptedTool] => {
    const { accepted, acceptedAt, seen, changedAt } = membersOf(value);
    if (!isFingerprint(accepted) || typeof acceptedAt !== 'number')
      throw new Error(`${path} is damaged`);
    const changed = isFingerprint(seen) && typeof changedAt === 'number';
    return [name, { accepted, acceptedAt, ...(changed && { seen, changedAt }) }];
  });
  return new Map(entries);
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isFingerprint(value: unknown): value is ToolFingerprint {
  const members = membersOf(value);
  return toolParts.every((part) => typeof members[part] === 'string');
}

function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
