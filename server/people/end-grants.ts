/**
 * Revokes everything that applications hold in a person's name, before the password that could have let
 * somebody else allow it is replaced.
 */
export type EndGrants = (userId: string) => Promise<void>;
