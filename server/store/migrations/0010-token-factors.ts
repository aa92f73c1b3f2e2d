/** How much somebody had proved who made a personal token. */
export const tokenFactors: readonly string[] = [
  // What was made before that was asked may have taken a password alone.
  `alter table personal_token add column factors integer not null default 1`,
];
