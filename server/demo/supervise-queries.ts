import type * as workerThreads from 'node:worker_threads';

/**
 * Runs a worker in this process, passes messages between it and the parent process, and ends the
 * process the moment either is gone, or takes too much memory: a worker in an endless query ends no
 * other way. Node's SQLite is built without memory accounting, so its own heap limits do nothing.
 * Runs as its own source text, as `answerQueries` does.
 */
export function superviseQueries(
  host: NodeJS.Process,
  { Worker }: typeof workerThreads,
  source: string,
  maxMemoryBytes: number,
): void {
  const worker = new Worker(source, {
    eval: true,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 },
  });
  const end = () => host.kill(host.pid, 'SIGKILL');
  let watch: NodeJS.Timeout | undefined;

  host.on('message', (message) => {
    watch = setInterval(() => {
      if (host.memoryUsage.rss() > maxMemoryBytes) end();
    }, 20);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
    worker.postMessage(message);
  });
  worker.on('message', (message) => {
    clearInterval(watch);
    host.send?.(message);
  });
  host.on('disconnect', end);
  worker.on('error', end);
  worker.on('exit', end);
}
