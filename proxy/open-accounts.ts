export type * from '#accounts/accounts-door';
export { AccountsError } from '#accounts/accounts-error';
export type { Launcher } from '#config/launch-entry';
export { packagedLauncher } from '#config/packaged-launcher';
