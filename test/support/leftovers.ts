import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * What a run of the tests left behind: temporary folders and files in `folder`, the run's own `TMPDIR`, and processes
 * that still carry it in their environment, command line or working directory. One line each.
 *
 * Processes are found where there is a `/proc`, that is on Linux.
 */
export async function leftovers(folder: string): Promise<string[]> {
  const files = (await readdir(folder)).filter((name) => !kept.has(name)).sort();
  const processes = await processesOf(folder);
  for (const { pid } of processes) end(pid);
  return [
    ...(await Promise.all(files.map((name) => leftFile(folder, name)))),
    ...processes.map(({ pid, command }) => `a test left process ${pid} running: ${command}`),
  ];
}

/** Names a few of the files in a folder, too, because they tell which test made it. */
async function leftFile(folder: string, name: string): Promise<string> {
  const inside = await readdir(join(folder, name), { recursive: true }).catch(() => []);
  const some = inside.length > 0 ? ` (${inside.slice(-5).join(', ')})` : '';
  return `a test left ${name}${some} in its temporary folder`;
}

/** Caches that are meant to stay: Node's, and that of `jiti`, with which development tools load their configuration. */
const kept = new Set(['node-compile-cache', 'jiti']);

async function processesOf(folder: string): Promise<{ pid: number; command: string }[]> {
  const entries = await readdir('/proc').catch(() => []);
  const pids = entries.map(Number).filter((pid) => pid > 0 && pid !== process.pid);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const command = (await text(`/proc/${pid}/cmdline`)).replaceAll('\0', ' ').trim();
      const environment = await text(`/proc/${pid}/environ`);
      const workingDirectory = await readlink(`/proc/${pid}/cwd`).catch(() => '');
      // A process that has ended and waits for its parent has no command line any more.
      const belongs = [command, environment, workingDirectory].some((it) => it.includes(folder));
      return belongs && command !== '' ? { pid, command: command.slice(0, 200) } : undefined;
    }),
  );
  return found.filter((one) => one !== undefined);
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

/** The files of another user's process cannot be read, and no test started such a process. */
function text(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}
