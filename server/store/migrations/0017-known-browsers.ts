/** Guesses are counted by place, and browsers that signed in before are a place of their own. */
export const knownBrowsers: readonly string[] = [
  // Challenges that no server issued could be spent, with an end as far away as somebody liked.
  `delete from spent_challenge`,
];
