import {
  AdministrationRefusal,
  type AdministrationRefusalCode,
  type FieldError,
} from '#administration/administration-refusal';
import { wireName } from '#api/wire-names';
import { errorAnswer, type ErrorAnswer } from './error-answer.ts';
import { oauthErrorAnswer } from './oauth-error-answer.ts';

/** What the admin API says about a failure: the same members, and which fields are wrong. */
export function adminErrorAnswer(error: unknown): ErrorAnswer & {
  readonly body: { readonly fields?: readonly FieldError[] };
} {
  if (!(error instanceof AdministrationRefusal)) {
    const { body, ...rest } = oauthErrorAnswer(error);
    if (body.error !== 'invalid_client') return { ...rest, body };
    const headers = { 'WWW-Authenticate': 'Bearer realm="latchkey"' };
    return { status: 401, headers, body: { ...body, error: 'invalid_token' } };
  }
  const { code, message } = error;
  const fields = error.fields.map(({ field, problem }) => ({ field: wireName(field), problem }));
  const [first] = fields;
  const words = first ? `${first.field} ${first.problem}`.trim() : message;
  const { status, headers, body } = errorAnswer(refusalStatus(code), code, words);
  return { status, headers, body: { ...body, ...(first && { fields }) } };
}

function refusalStatus(code: AdministrationRefusalCode): number {
  switch (code) {
    case 'not_found':
      return 404;
    case 'forbidden':
    case 'proof_old':
      return 403;
    case 'invalid':
      return 422;
    case 'conflict':
      return 409;
  }
}
