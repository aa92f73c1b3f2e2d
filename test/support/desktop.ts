import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runProgram } from '#support/processes';
import { inherited } from '#support/programs';
import { launcher, proxyProcess } from '#support/proxy-process';
import { temporaryFolder } from '#support/temporary-folder';

const browser = join(import.meta.dirname, 'fake-browser.mjs');

/** A person's machine: a folder for stored data, a browser that consents, and Latchkey's commands. */
export async function desktop(env: Record<string, string> = {}) {
  const folder = await temporaryFolder();
  const keyFile = join(folder.path, 'key');
  const pages = join(folder.path, 'pages');
  writeFileSync(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const all = {
    ...inherited,
    HOME: folder.path,
    BROWSER: browser,
    FAKE_BROWSER_PAGES: pages,
    LATCHKEY_STATE_DIR: folder.path,
    LATCHKEY_SECRET_STORE: 'file',
    LATCHKEY_SECRET_STORE_KEY_FILE: keyFile,
    ...env,
  };
  return {
    env: all,
    folder: folder.path,
    pages: async () => {
      for (let attempt = 0; attempt < 1200 && !existsSync(pages); attempt += 1)
        await new Promise((resolve) => setTimeout(resolve, 50));
      return existsSync(pages) ? readFileSync(pages, 'utf8') : '';
    },
    run: async (...args: string[]) =>
      runProgram(process.execPath, { args: [launcher, ...args], env: all }),
    proxy: (server: { url: string }, ...args: string[]) =>
      proxyProcess({ args: [server.url, ...args], env: all }),
    /** Starts the proxy with more variables in its environment. */
    proxyWith: (own: Record<string, string>, server: { url: string }, ...args: string[]) =>
      proxyProcess({ args: [server.url, ...args], env: { ...all, ...own } }),
    [Symbol.asyncDispose]: async () => folder[Symbol.asyncDispose](),
  };
}
