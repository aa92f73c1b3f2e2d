import type { PeopleRefusalCode } from '#people/people-refusal';
import { plainErrorPage, type ErrorPageAnswer } from './plain-error-page.ts';

/** What a page says of how somebody proves who they are. */
export function peopleErrorPage(code: PeopleRefusalCode): ErrorPageAnswer {
  switch (code) {
    case 'busy': {
      const text = 'Many people sign in at this moment. Try again in a few seconds.';
      return { ...plainErrorPage(503, 'Busy', text), headers: { 'Retry-After': '5' } };
    }
    case 'link_over':
      return plainErrorPage(
        410,
        'This link is over',
        'It was used or taken back, it is too old, or a newer one took its place. Ask whoever gave it to you for a new one.',
      );
    case 'set_up_over':
      return plainErrorPage(
        410,
        'This link is over',
        'It made the first owner, or an hour has passed. While nobody can sign in, the server prints a new link whenever it is started: start it again.',
      );
    case 'forged':
      return plainErrorPage(
        403,
        'Nothing was changed',
        'The form did not come from a page that this browser has open now: it was too old, cookies are off, or another site sent it. Open the page again and repeat it.',
      );
    case 'proof_old':
      return plainErrorPage(
        403,
        'Sign in again first',
        'Sign in again, then repeat it: changing how you sign in takes a sign-in within the last ten minutes.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'second_factor':
      return plainErrorPage(
        403,
        'A second factor is needed',
        'This organization opens its pages to nobody without one. Set up an authenticator app or a passkey on your account page, and sign in with it.',
        { text: 'To your account', href: '/account#second-factor' },
      );
    case 'passkey_first':
      return plainErrorPage(
        403,
        'Sign in with your passkey first',
        'Sign in with your passkey first, then repeat it: a password alone changes no other way to sign in. Where the passkey is lost, an administrator can reset your second factor.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'provider_first':
      return plainErrorPage(
        403,
        'Sign in with your linked account first',
        'Sign in with your linked account first, then repeat it: a password alone changes no other way to sign in. Where that account is lost, an administrator can reset your second factor.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'enrolled':
      return plainErrorPage(
        409,
        'Nothing was changed',
        'An authenticator app is set up already, or none waits for its first code. Look at your account and start again there.',
        { text: 'To your account', href: '/account' },
      );
    case 'sign_in_late':
      return plainErrorPage(
        403,
        'Not signed in',
        'The code came more than five minutes after the password, or from another browser. Start again.',
      );
    case 'not_yours':
      return plainErrorPage(
        404,
        'Nothing was changed',
        'What the form was about is not there, or not there any more.',
        { text: 'To your account', href: '/account' },
      );
    case 'passkey_unproven':
      return plainErrorPage(
        403,
        'Not signed in',
        'The passkey was not recognised. Try again, or sign in otherwise.',
      );
    case 'state_unknown':
    case 'identity_unproven':
      return plainErrorPage(
        403,
        'Not signed in',
        'The answer of the other service does not prove who you are. Try again, or sign in otherwise.',
      );
    case 'identity_taken':
      return plainErrorPage(
        409,
        'Not linked',
        'Somebody else here signs in with that account. Unlink it there first, or use another one.',
      );
    case 'provider_unreachable':
      return plainErrorPage(
        502,
        'Not signed in',
        'The other service does not answer at this moment. Try again soon, or sign in otherwise.',
      );
    case 'identity_unknown':
      return plainErrorPage(
        403,
        'Not signed in',
        'Nobody here has linked that account. Sign in otherwise, then link it on your account page.',
      );
  }
}
