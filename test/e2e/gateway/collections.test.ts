import { testCollectedServers } from '#support/collected-servers';

/** Each member and each kind of assistant; `collections.full.test.ts` has every pair of them. */
testCollectedServers({
  surveys: [
    ['everything', 'SDK 1'],
    ['everything', 'SDK 2, modern era'],
    ['memory', 'SDK 2, older era'],
    ['filesystem', 'SDK 2, modern era'],
  ],
  restarts: [
    ['everything', 'SDK 1'],
    ['memory', 'SDK 2, older era'],
    ['filesystem', 'SDK 2, modern era'],
  ],
});
