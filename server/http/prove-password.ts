import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { codePage, type CodePageData } from '#pages/code-page';
import type { FieldError } from '#pages/page';
import { ownPath } from '#people/own-path';
import { PeopleRefusal } from '#people/people-refusal';
import { askSecondFactor, proveSecondFactor } from '#people/second-factor';
import { browserToken, browserCsrfToken } from './browser-token.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { readPageForm } from './page-form.ts';
import { sendPage } from './send-page.ts';
import { deviceTokenOf, sendOnward, signInBrowser } from './sign-in-browser.ts';
import { visitOf } from './visit.ts';
import { waitInWords } from './wait-in-words.ts';

interface Onward {
  readonly userId: string;
  /** Where to go once signed in. */
  readonly next: string;
}

/**
 * Goes on once a password was proved: asks for the code of an authenticator app where the person has one,
 * else signs the browser in.
 */
export async function signInAfterPassword(
  request: FastifyRequest,
  reply: FastifyReply,
  { userId, next }: Onward,
  options: PeopleRoutesOptions,
): Promise<FastifyReply> {
  const { base, people } = options;
  const challenge = await askSecondFactor(userId, browserToken(request, reply, base), people);
  if (challenge === undefined) {
    await signInBrowser(request, reply, { userId, factors: 1 }, options);
    return sendOnward(reply, next, base);
  }
  return sendCodePage(request, reply, { challenge, userId, next, errors: [] }, base);
}

function sendCodePage(
  request: FastifyRequest,
  reply: FastifyReply,
  data: CodePageData,
  base: string,
  status = 200,
): FastifyReply {
  const csrfToken = browserCsrfToken(request, reply, base);
  return sendPage(reply, codePage, data, { csrfToken, status });
}

/** `POST /sign-in/code`: the second factor, from the page that follows the password. */
export function codeRoute(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  app.post('/sign-in/code', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
    const userId = form.get('user') ?? '';
    const next = ownPath(form.get('next'), base);
    const typed = {
      userId,
      code: form.get('code') ?? '',
      challenge: form.get('challenge') ?? '',
      deviceToken: deviceTokenOf(request, base),
    };
    const cookieToken = browserToken(request, reply, base);
    const proof = await proveSecondFactor(typed, cookieToken, visitOf(request), people);
    const again = async (message: string, status: number) => {
      const challenge = await askSecondFactor(userId, cookieToken, people);
      // A code that was refused never signs in, even when the app is removed at the same moment.
      if (challenge === undefined) throw new PeopleRefusal('sign_in_late', 'no app any more');
      const errors: FieldError[] = [{ field: 'code', message }];
      return sendCodePage(request, reply, { challenge, userId, next, errors }, base, status);
    };
    switch (proof.outcome) {
      case 'proved':
        await signInBrowser(request, reply, { userId, factors: 2 }, options);
        return sendOnward(reply, next, base);
      case 'refused':
        return again('This is not the code of this moment, or it was used already.', 422);
      case 'wait':
        void reply.header('Retry-After', proof.waitSeconds);
        return again(
          `There were too many wrong codes. Wait ${waitInWords(proof.waitSeconds)}, then try again.`,
          429,
        );
    }
  });
}
