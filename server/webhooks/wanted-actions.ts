/** How an action is named where it is chosen: `key.create`, or `key.` for all that begin so. */
export const wantedActionPattern = /^[a-z][a-z-]*(?:\.[a-z-]+)*\.?$/;
