import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TemporaryFolder extends AsyncDisposable {
  readonly path: string;
}

/** An empty folder in `parent`, readable by this user only, and removed at the end of its `await using` scope or of the process. */
export async function temporaryFolder(
  name = 'latchkey',
  parent = tmpdir(),
): Promise<TemporaryFolder> {
  const path = await mkdtemp(join(parent, `${name}-`));
  const remove = () => rmSync(path, { recursive: true, force: true });
  process.once('exit', remove);
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      process.off('exit', remove);
      await rm(path, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
