/** What a guard needs of the process that it is. */
type GuardProcess = {
  readonly stdin: NodeJS.ReadableStream;
  readonly platform: NodeJS.Platform;
  kill(pid: number, signal: NodeJS.Signals): boolean;
  on(signal: NodeJS.Signals, listener: () => void): unknown;
};

/**
 * Reads `+PID` and `-PID` lines. At the end of its input, which is when whoever started it is no more, it ends
 * those that are left with all their processes: politely, and half a second later by force. Its text is run
 * by a bare Node, too, so it uses nothing from outside of itself.
 */
export async function guardChildren(guard: GuardProcess): Promise<void> {
  const left = new Set<number>();
  let rest = '';
  const end = (signal: NodeJS.Signals) => {
    for (const pid of left)
      try {
        guard.kill(guard.platform === 'win32' ? pid : -pid, signal);
      } catch {
        left.delete(pid);
      }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) guard.on(signal, () => {});
  await new Promise<void>((resolve) => {
    guard.stdin.on('data', (bytes) => {
      const lines = (rest + String(bytes)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines)
        if (line.startsWith('+')) left.add(Number(line.slice(1)));
        else left.delete(Number(line.slice(1)));
    });
    guard.stdin.on('end', resolve);
  });
  end('SIGTERM');
  if (left.size === 0) return;
  await new Promise((resolve) => {
    setTimeout(resolve, 500);
  });
  end('SIGKILL');
}
