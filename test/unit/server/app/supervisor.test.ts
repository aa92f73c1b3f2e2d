import cluster from 'node:cluster';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { jsonLog } from '#server/log/log';
import { Supervisor } from '#server/app/supervisor';
import { temporaryFolder } from '#support/temporary-folder';

afterEach(() => void vi.useRealTimers());

test('supervisor: a worker that does not stop is killed 20 seconds after the shutdown delay', async () => {
  await using folder = await temporaryFolder('supervisor');
  const exec = join(folder.path, 'worker.mjs');
  writeFileSync(exec, `process.send({ type: 'ready' }); process.on('message', () => {});`);
  cluster.setupPrimary({ exec });
  const supervisor = await Supervisor.open({
    processes: 1,
    port: 1,
    shutdownDelayMs: 300_000,
    log: jsonLog('silent', { write: () => {} }),
    failed: ({ message }) => expect.unreachable(message),
  });
  const [worker] = Object.values(cluster.workers ?? {});
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });

  const closed = supervisor.close();
  vi.advanceTimersByTime(319_999);
  const wasKilledBefore = worker?.process.killed;
  vi.advanceTimersByTime(1);
  await closed;

  expect({ wasKilledBefore, signal: worker?.process.signalCode }).toEqual({
    wasKilledBefore: false,
    signal: 'SIGKILL',
  });
});
