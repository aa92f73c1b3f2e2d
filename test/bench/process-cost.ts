import { readdirSync, readFileSync } from 'node:fs';

export interface ProcessCost {
  readonly cpuMs: number;
  readonly residentBytes: number;
  /** The sum of the peaks of all processes, which may lie at different times. */
  readonly peakBytes: number;
}

/** A tick of /proc/PID/stat, on every Linux that Node runs on. */
const tickMs = 10;
const nanosecondsInMs = 1e6;
const pageBytes = 4096;

/** What a process and its descendants have used so far; `undefined` where there is no /proc. */
export function processCost(pid: number): ProcessCost | undefined {
  if (process.platform !== 'linux') return undefined;
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readStat(Number(name)));
  const tree = new Set([pid]);
  // A child's pid may be lower than its parent's, so look until no process is added.
  for (let size = 0; size !== tree.size;) {
    size = tree.size;
    for (const { pid: child, parent } of all) if (tree.has(parent)) tree.add(child);
  }
  const members = all.filter((member) => tree.has(member.pid));
  return {
    cpuMs: members.reduce(
      (sum, member) => sum + (threadsMs(member.pid) ?? member.ticks * tickMs),
      0,
    ),
    residentBytes: members.reduce((sum, { pages }) => sum + pages * pageBytes, 0),
    peakBytes: members.reduce((sum, member) => sum + peakBytes(member.pid), 0),
  };
}

/** `pid (name) state ppid …`, where the name may hold anything: proc_pid_stat(5). */
function readStat(pid: number): { pid: number; parent: number; ticks: number; pages: number }[] {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return [];
  }
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [parent = 0, user = 0, system = 0, pages = 0] = [
    fields[1],
    fields[11],
    fields[12],
    fields[21],
  ];
  return [{ pid, parent, ticks: user + system, pages }];
}

/** The first number of each thread's schedstat, in nanoseconds. A thread that has ended is missing; Node's own stay to the end. */
function threadsMs(pid: number): number | undefined {
  try {
    const spent = readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number.parseInt(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8'), 10),
    );
    return spent.reduce((sum, each) => sum + each, 0) / nanosecondsInMs;
  } catch {
    return undefined;
  }
}

/** `VmHWM: N kB` of /proc/PID/status: proc_pid_status(5). */
function peakBytes(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
