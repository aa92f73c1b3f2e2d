import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { onTestFinished } from 'vitest';

/** The path of an empty folder that is removed when the running test has finished. */
export function testFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'test-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true, maxRetries: 3 }));
  return path;
}
