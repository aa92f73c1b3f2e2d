/** Why a request is refused if no form can show the error. */
export type AccountRefusalCode =
  /** Too many password checks are in progress. */
  | 'busy'
  /** A one-time link was used, has expired or never existed. */
  | 'link_expired'
  /** The link that creates the first owner was used or has expired, or there already is an owner. */
  | 'set_up_expired'
  /** The form was not sent by a page of this server in this browser. */
  | 'csrf_invalid'
  /** Adding a way to sign in requires a recent sign-in. */
  | 'reauthentication_required'
  /** The person already has an authenticator app, or there is none to confirm. */
  | 'enrolled'
  /** The organization requires two factors, and this browser proved one. */
  | 'second_factor'
  /** The organization requires single sign-on, and this browser did not come through one of its providers. */
  | 'single_sign_on'
  /** The person has a passkey, but signed in here with the password alone. */
  | 'passkey_first'
  /** The person has linked an account of the OpenID provider, but signed in here with the password alone. */
  | 'provider_first'
  /** The password was entered too long ago, or in another browser, to continue with the second factor. */
  | 'sign_in_expired'
  /** The record does not exist or belongs to another person. Deliberately not distinguished. */
  | 'not_found'
  /** The passkey response does not verify. */
  | 'passkey_invalid'
  /** The response of the OpenID provider does not prove an identity. */
  | 'identity_invalid'
  /** The OpenID provider named no e-mail address. */
  | 'email_missing'
  /** The OpenID provider does not say whether it verified the address, and the operator trusts only verified addresses. */
  | 'email_unsaid'
  /** The OpenID provider says that the address is not verified. */
  | 'email_unverified'
  /** This server did not send this browser to the provider, or the response was used before. */
  | 'state_unknown'
  /** Another person has already linked that account. */
  | 'identity_taken'
  /** The OpenID provider does not respond. */
  | 'provider_unreachable'
  /** The identity is proved, but no person has linked it. */
  | 'identity_unknown'
  /** No organization has this provider, or it is disabled or not for sign-in. Deliberately not distinguished. */
  | 'provider_unknown'
  /** The identity is proved, but gives no access to the organization of the provider. */
  | 'member_unknown'
  /** The organization's directory deactivated the person. */
  | 'deactivated';

/**
 * A refused sign-in, or a refused change of how a person signs in. `web/page-errors.ts` maps the code to a text. `reason`
 * becomes the message, which is only logged.
 */
export class AccountRefusal extends Error {
  override readonly name = 'AccountRefusal';
  readonly code: AccountRefusalCode;

  constructor(code: AccountRefusalCode, reason: string = code, options?: ErrorOptions) {
    super(reason, options);
    this.code = code;
  }
}
