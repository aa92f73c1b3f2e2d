/* oxlint-disable vitest/valid-title, vitest/valid-describe-callback, vitest/no-conditional-tests,
   vitest/expect-expect -- title and tests are the caller's */
import { describe, test } from 'vitest';
import { lack, requirements, type RequirementName } from './requirements.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** What the suite needs and this machine lacks; the summary of `npm test` reads it. */
    missing?: string[];
  }
}

/**
 * `describe` for a suite that needs more than Node. Where a requirement is missing the suite is skipped, and
 * on CI (`CI` is set) it fails.
 *
 *     await suite('keychain', 'a secret in the OS keychain', () => { test(…) });
 */
export async function suite(
  needs: RequirementName | readonly RequirementName[],
  title: string,
  define: () => void,
): Promise<void> {
  const names = typeof needs === 'string' ? [needs] : needs;
  const lacks = await Promise.all(names.map((name) => lack(requirements[name])));
  const missing = names.filter((_, index) => lacks[index] !== undefined);
  if (missing.length === 0) {
    describe(title, define);
  } else if (process.env['CI']) {
    describe(title, () => {
      test(`needs ${missing.join(', ')}`, () => {
        const remedies = missing.map((name) => requirements[name].install).join('; ');
        throw new Error(`${lacks.filter(Boolean).join(', ')}; to install: ${remedies}`);
      });
    });
  } else {
    describe(title, { skip: true, meta: { missing } }, define);
  }
}
