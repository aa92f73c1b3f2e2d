/** One thing that the doctor looked at. Never with a secret. */
export type Finding = {
  check: string;
  state: 'ok' | 'warn' | 'fail';
  what: string;
  /** What to do about it. */
  hint?: string;
};

/** Something to be looked at. It may say several things, and throw: that is a finding, too. */
export type Check = {
  name: string;
  run: (signal: AbortSignal) => Promise<readonly Finding[]> | readonly Finding[];
};

export const ok = (check: string, what: string): Finding => ({ check, state: 'ok', what });
export const warn = (check: string, what: string, hint: string): Finding => ({
  check,
  state: 'warn',
  what,
  hint,
});
export const fail = (check: string, what: string, hint: string): Finding => ({
  check,
  state: 'fail',
  what,
  hint,
});
