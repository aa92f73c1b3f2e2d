import { readdir } from 'node:fs/promises';
import type { TestProject } from 'vitest/node';
import { temporaryFolder } from './temporary-folder.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The folder that the tests of this level work in. */
    ownFolder: string;
  }
}

/** Makes the empty folder that `own-folder.ts` changes to. A test that writes into it by a relative path fails the run. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const folder = await temporaryFolder('own');
  project.provide('ownFolder', folder.path);
  return async () => {
    const left = await readdir(folder.path);
    await folder[Symbol.asyncDispose]();
    if (left.length > 0) throw new Error(`written into the working directory: ${left.join(', ')}`);
  };
}
