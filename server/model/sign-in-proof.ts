import type { Role } from './roles.ts';

/** The proof that a person gave at sign-in. */
export interface SignedIn {
  /** How many factors they proved: a password alone is one. */
  readonly factors: 1 | 2;
  /** The organization's provider that they came through; absent if the sign-in opens their whole account. */
  readonly through?: object | undefined;
}

/** The proof that an organization requires of members who enter. */
export interface EntryRules {
  readonly secondFactorRequired: boolean;
  readonly singleSignOnRequired: boolean;
}

/**
 * What a member still has to prove before they may enter an organization; `undefined` if nothing. An owner with two factors
 * always enters, so that a provider that is broken, or in wrong hands, cannot lock everyone out. `signedIn` must be a sign-in
 * that opens the organization.
 */
export function missingProof(
  { factors, through }: SignedIn,
  role: Role,
  { secondFactorRequired, singleSignOnRequired }: EntryRules,
): 'single-sign-on' | 'second-factor' | undefined {
  const isOwnerWithTwo = role === 'owner' && factors === 2;
  if (singleSignOnRequired && !through && !isOwnerWithTwo) return 'single-sign-on';
  return secondFactorRequired && factors < 2 ? 'second-factor' : undefined;
}
