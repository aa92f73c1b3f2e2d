/** Why a page refuses a request when no form can show the error. */
export type PeopleRefusalCode =
  /** Too many password checks are in progress. */
  | 'busy'
  /** A one-time link was used, has expired or never existed. */
  | 'link_over'
  /** The same for the link that creates the first owner. Also when there already is an owner. */
  | 'set_up_over'
  /** The form was not sent by a page of ours in this browser. */
  | 'forged'
  /** Adding a way to sign in requires a recent sign-in. */
  | 'proof_old'
  /** There already is an authenticator app, or none is waiting for its first code. */
  | 'enrolled'
  /** The organization requires two factors, and this browser proved one. */
  | 'second_factor'
  /** The person has a passkey, but signed in here with the password alone. */
  | 'passkey_first'
  /** The person has linked an account of the OpenID provider, but signed in here with the password alone. */
  | 'provider_first'
  /** The password was checked too long ago, or in another browser, to ask for the second factor. */
  | 'sign_in_late'
  /** It does not exist or belongs to another person. Deliberately not told apart. */
  | 'not_yours'
  /** The passkey response does not verify. */
  | 'passkey_unproven'
  /** The answer of the OpenID provider does not prove an identity. */
  | 'identity_unproven'
  /** This server did not send this browser to the provider, or the answer was used before. */
  | 'state_unknown'
  /** Another person has already linked that account. */
  | 'identity_taken'
  /** The OpenID provider does not respond. */
  | 'provider_unreachable'
  /** The identity is proved, but no person here has linked it. */
  | 'identity_unknown';

/**
 * A request that an account page refuses. `http/people-error-page.ts` maps the code to a text; `reason` is for the
 * log.
 */
export class PeopleRefusal extends Error {
  override readonly name = 'PeopleRefusal';
  readonly code: PeopleRefusalCode;

  constructor(code: PeopleRefusalCode, reason: string = code, options?: ErrorOptions) {
    super(reason, options);
    this.code = code;
  }
}
