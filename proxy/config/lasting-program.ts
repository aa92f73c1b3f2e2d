import { UsageError } from './usage-error.ts';

const passing = [
  {
    place: /\/AppTranslocation\//,
    why: 'macOS runs Latchkey from a copy that is gone after this start',
    remedy: 'move Latchkey to Applications in Finder, open it from there, and try again',
  },
  {
    place: /^\/Volumes\/[^/]+\/Latchkey[^/]*\.app\//,
    why: 'Latchkey runs from its disk image, which will not stay',
    remedy: 'drag Latchkey to Applications, open it from there, and try again',
  },
  {
    place: /\/\.mount_[^/]+\//,
    why: 'this is inside an AppImage, under a path of this one start',
    remedy: 'start the AppImage itself, or install the .deb package',
  },
];

/**
 * `program` again, when it is likely to be found there after a restart and an update.
 *
 * @throws {UsageError} with what to do, when not
 */
export function lastingProgram(program: string): string {
  const found = passing.find(({ place }) => place.test(program));
  if (!found) return program;
  throw new UsageError(
    `no assistant could start Latchkey from ${program}: ${found.why}`,
    found.remedy,
  );
}
