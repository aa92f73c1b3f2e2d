import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { libraryFile } from '#server/demo/library-file';
import { temporaryFolder } from '#support/temporary-folder';

const module = pathToFileURL(join(import.meta.dirname, '../../../../server/demo/query-process.ts'));

/** Where the children of a process are listed, and how to see one gone, is Linux's. */
test.skipIf(process.platform !== 'linux')(
  'a process in an endless query dies with a server that is killed',
  async () => {
    await using folder = await temporaryFolder();
    const file = libraryFile(folder.path);
    const script = `
      const { queryProcess } = await import(${JSON.stringify(module.href)});
      const asked = queryProcess(process.execPath, ${JSON.stringify(file)});
      const signal = new AbortController().signal;
      await asked.ask({ sql: 'select 1', maxRows: 1 }, { timeoutMs: 9000, signal });
      const sql = 'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r';
      void asked.ask({ sql, maxRows: 1 }, { timeoutMs: 9000, signal });
      console.log('asked');`;
    const server = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(server.stdout, 'data');
    const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8');
    const child = `/proc/${children.trim()}`;
    expect(readFileSync(`${child}/environ`, 'utf8')).toMatch(/^(NODE_CHANNEL_\w+=\w+\0)*$/);

    server.kill('SIGKILL');

    // A dead child stays a zombie until its new parent looks.
    const alive = () =>
      existsSync(child) && !readFileSync(`${child}/stat`, 'utf8').includes(') Z ');
    while (alive()) await wait(10);
    expect(alive()).toBe(false);
  },
);
