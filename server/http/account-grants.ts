import type { FastifyInstance } from 'fastify';

import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { GrantStore } from '#oauth/grant-store';
import { withdrawGrant, type WithdrawGrantPorts } from '#oauth/withdraw-grant';
import type { AccountGrant } from '#pages/account-grants';
import { shownName } from '#pages/plain-text';
import { scopeSentence } from '#pages/scope-sentence';
import { PeopleRefusal } from '#people/people-refusal';
import { audited } from './audited.ts';
import { currentPersonOf, type CurrentPersonPorts } from './current-person.ts';
import { pageErrors } from './page-errors.ts';
import { readPageForm, takeForms } from './page-form.ts';
import { sendOnward } from './sign-in-browser.ts';
import { signedIn } from './signed-in.ts';

export interface AccountGrantRoutesOptions {
  readonly base: string;
  readonly ports: WithdrawGrantPorts &
    CurrentPersonPorts & { readonly audit: AuditLog; readonly clock: Clock };
}

/** `POST /account/grants/{id}/withdraw`: what the person allowed counts no more. */
export function accountGrantRoutes(
  app: FastifyInstance,
  { base, ports }: AccountGrantRoutesOptions,
): void {
  takeForms(app);
  app.setErrorHandler(pageErrors(base, ports));
  const currentPerson = currentPersonOf(base, ports);
  app.post<{ Params: { id: string } }>('/account/grants/:id/withdraw', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const audit = audited(request, ports);
    const isDone = await withdrawGrant(request.params.id, person.user.id, audit);
    if (!isDone) throw new PeopleRefusal('not_yours');
    return sendOnward(reply, '/account?done=withdrawn', base);
  });
}

/** What a person allowed applications to do, for the account page. */
export function accountGrantsOf(grants: Pick<GrantStore, 'list'>, clock: Clock) {
  return async (userId: string): Promise<AccountGrant[]> => {
    const list = await grants.list(userId, clock.now());
    return list.map(({ id, clientName, serverPath, scopes, createdAt, lastUsedAt }) => ({
      id,
      client: shownName(clientName),
      server: serverPath,
      scopes: scopes.map((scope) => scopeSentence(scope).text),
      createdAt,
      lastUsedAt,
    }));
  };
}
