import type { Clock } from '#clock/clock';
import type { Scope } from '#credentials/scope';
import { hashSecret, mintSecret, randomBase62 } from '#credentials/secret-format';
import { answerUrl } from './answer-url.ts';
import type { AuthorizationCodeStore } from './authorization-code-store.ts';
import type { AuthorizationRequest } from './authorization-request.ts';

const codeLifeSeconds = 60;

export interface IssueCodePorts {
  readonly base: string;
  readonly codes: Pick<AuthorizationCodeStore, 'add'>;
  readonly clock: Clock;
}

/** Makes the code for what a person granted. The redirect URI with it. RFC 6749 §4.1.2, RFC 9207 §2 */
export async function issueCode(
  {
    clientId,
    redirectUri,
    state,
    codeChallenge,
  }: Pick<AuthorizationRequest, 'clientId' | 'redirectUri' | 'state' | 'codeChallenge'>,
  granted: { userId: string; serverId: string; scopes: readonly Scope[] },
  { base, codes, clock }: IssueCodePorts,
): Promise<string> {
  const code = mintSecret('code_');
  const now = clock.now();
  const kept = {
    ...granted,
    hash: hashSecret(code),
    grantId: `grant_${randomBase62(16)}`,
    clientId,
    redirectUri,
    codeChallenge,
    expiresAt: now + codeLifeSeconds,
  };
  await codes.add(kept, now);
  return answerUrl({ redirectUri, state }, { code }, base);
}
