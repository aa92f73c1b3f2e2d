// Lifetimes of tokens, sessions, links, challenges and records of sign-in, in seconds.

/** An access token that lives longer is refused. */
export const accessTokenLifeSeconds = 60 * 60;

/** A refresh token expires when it was not used for this long. */
export const refreshTokenLifeSeconds = 30 * 24 * 60 * 60;

/** A grant expires at this age, even if its tokens are refreshed. */
export const grantLifeSeconds = 180 * 24 * 60 * 60;

/** A session expires when it was not used for this long. */
export const sessionIdleSeconds = 7 * 24 * 60 * 60;

/** A session expires at this age, even if it is used. */
export const sessionLifeSeconds = 30 * 24 * 60 * 60;

/**
 * Changing how a person signs in, and the most sensitive actions of a session, require a sign-in within this time.
 */
export const recentProofSeconds = 10 * 60;

/** A browser stays known for this long after the last sign-in. */
export const knownBrowserLifeSeconds = 365 * 24 * 60 * 60;

/** How long failed attempts are stored, and thus the longest period over which they can be counted. */
export const attemptLifeSeconds = 24 * 60 * 60;

/** The lifetime of a one-time link, which creates the first owner or sets a new password. */
export const linkLifeSeconds = 60 * 60;

/** The lifetime of a challenge that a browser must return. */
export const challengeLifeSeconds = 5 * 60;

/** The longest lifetime of an identity assertion, which is made to be exchanged at once. */
export const identityAssertionLifeSeconds = 60 * 60;
