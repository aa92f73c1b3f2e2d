export type * from '#accounts/accounts-door';
export { AccountsError } from '#accounts/accounts-error';
