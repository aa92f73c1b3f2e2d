/** Why a page turns somebody down, where no form can say it. */
export type PeopleRefusalCode =
  /** Too many passwords are being checked at this moment. */
  | 'busy'
  /** A one-time link was used, has expired or never was. */
  | 'link_over'
  /** The same of a link that makes the first owner, or there is one. */
  | 'set_up_over'
  /** A form that our page in this browser did not send. */
  | 'forged'
  /** Adding a way to sign in takes a sign-in that is not long ago. */
  | 'proof_old'
  /** There is an authenticator app already, or none that waits for its first code. */
  | 'enrolled'
  /** The organization asks for two factors, and this browser proved one. */
  | 'second_factor'
  /** The person has a passkey, and this browser proved the password alone. */
  | 'passkey_first'
  /** The same of an account of the OpenID provider that the person linked. */
  | 'provider_first'
  /** The password was proved too long ago, or in another browser, to ask for the second factor. */
  | 'sign_in_late'
  /** Nobody has it, or somebody else: it is not said which. */
  | 'not_yours'
  /** A passkey's answer that proves nothing. */
  | 'passkey_unproven'
  /** The upstream provider's answer does not prove who this is. */
  | 'identity_unproven'
  /** Nobody sent this browser to the provider, or it came back before. */
  | 'state_unknown'
  /** Somebody else here has linked that account. */
  | 'identity_taken'
  /** The upstream provider does not answer. */
  | 'provider_unreachable'
  /** It proves who this is, but nobody here has that account. */
  | 'identity_unknown';

/** A visit that people's pages turn down. The code becomes words in `http/people-error-page.ts`; `reason` is for the log. */
export class PeopleRefusal extends Error {
  override readonly name = 'PeopleRefusal';
  readonly code: PeopleRefusalCode;

  constructor(code: PeopleRefusalCode, reason: string = code, options?: ErrorOptions) {
    super(reason, options);
    this.code = code;
  }
}
