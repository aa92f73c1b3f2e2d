/** The name under which the sign-in at the address of a company is shown and cancelled. No connection has this name. */
export const setUpName = 'company address';

/** The address as it was typed, with the scheme that people leave out. */
export function companyAddress(typed: string): string {
  return /^https?:/i.test(typed) ? typed : `https://${typed}`;
}
