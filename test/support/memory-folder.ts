import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const place = '/dev/shm';
/** More than a run ever needs at a time. */
const wantedBytes = 4 * 1024 ** 3;

/**
 * A folder for the temporary files of a run: in memory, if there is room and programs can start there, because each of
 * thousands of commits would wait for a disk. Otherwise the system's own temporary folder.
 */
export async function memoryFolder(): Promise<string> {
  const room = await statfs(place).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  );
  return room >= wantedBytes && canStartPrograms() ? place : tmpdir();
}

function canStartPrograms(): boolean {
  const script = join(place, `latchkey-${process.pid}.sh`);
  try {
    writeFileSync(script, '#!/bin/sh\n', { mode: 0o700, flag: 'wx' });
    return spawnSync(script).status === 0;
  } catch {
    return false;
  } finally {
    rmSync(script, { force: true });
  }
}
