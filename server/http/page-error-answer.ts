import { AdministrationRefusal } from '#administration/administration-refusal';
import { OAuthRefusal } from '#oauth/oauth-refusal';
import { PeopleRefusal } from '#people/people-refusal';
import { frameworkStatus, isStoreFault } from './failure.ts';
import { oauthStatus } from './oauth-error-answer.ts';
import { peopleErrorPage } from './people-error-page.ts';
import { plainErrorPage, type ErrorPageAnswer } from './plain-error-page.ts';

/** Where to start anew. */
export const toDashboard = { text: 'To the dashboard', href: '/dashboard' };

/** What a page says about a failure. */
export function pageErrorAnswer(error: unknown): ErrorPageAnswer {
  if (error instanceof PeopleRefusal) return peopleErrorPage(error.code);
  if (error instanceof AdministrationRefusal) return administrationPage(error);
  const status = error instanceof OAuthRefusal ? oauthStatus(error.code) : frameworkStatus(error);
  if (status !== undefined) {
    return plainErrorPage(
      status,
      'This cannot be read',
      'Something about the request is not as a browser sends it.',
    );
  }
  if (isStoreFault(error)) {
    const text =
      'The database does not answer at this moment. Nothing was changed; try again soon.';
    return { ...plainErrorPage(503, 'Not available', text), headers: { 'Retry-After': '5' } };
  }
  return plainErrorPage(
    500,
    'This did not work',
    'That is our fault, and the log of the server says why.',
  );
}

function administrationPage({ code, message }: AdministrationRefusal): ErrorPageAnswer {
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  switch (code) {
    case 'not_found': {
      const text =
        'It does not exist, it was removed, or this account may not see it. Follow the dashboard from its start.';
      return plainErrorPage(404, 'There is nothing here', text, toDashboard);
    }
    case 'forbidden': {
      const text = `${sentence} Ask an owner or an admin of the organization to do it, or to change your role.`;
      return plainErrorPage(403, 'Your role does not allow this', text, toDashboard);
    }
    case 'conflict':
      return plainErrorPage(409, 'Nothing was changed', sentence, toDashboard);
    case 'invalid':
      return plainErrorPage(422, 'Nothing was changed', sentence, toDashboard);
    case 'proof_old':
      return plainErrorPage(403, 'Sign in again first', sentence, {
        text: 'Sign in again',
        href: '/sign-in?again=1&next=/dashboard',
      });
  }
}
