import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { notFound } from '#administration/administration-refusal';
import { perform } from '#administration/perform';
import { tokenCreate, tokenList, tokenRevoke } from '#administration/token-operations';
import { currentPersonOf, type CurrentPerson } from '#http/current-person';
import { readPageForm } from '#http/page-form';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { sendPage } from '#http/send-page';
import { signedIn } from '#http/signed-in';
import type { FieldError } from '#pages/page';
import { questionPage } from '#pages/question-page';
import type { Table } from '#pages/table';
import { isRecentProof } from '#people/recent-proof';
import type { DashboardOptions } from './dashboard-ports.ts';
import { dashboardScripts } from './dashboard-scripts.ts';
import { personActor } from './person-actor.ts';
import { refusedForm } from './refused-form.ts';
import { shownOncePage } from './shown-once-page.ts';
import { tokensPage } from './token-pages.ts';

const home = '/account/tokens';
const lives = ['7', '30', '90', '365'];
const usualLife = '90';
const labels = {
  name: { field: 'name', label: 'The name' },
  expiresInDays: { field: 'expiry', label: 'The life' },
};

/** `/account/tokens`: what programs of a person may do in their name. */
export function tokenRoutes(app: FastifyInstance, { base, ports }: DashboardOptions): void {
  const { clock } = ports;
  const currentPerson = currentPersonOf(base, ports);
  const scripts = dashboardScripts();
  const listed = async (person: CurrentPerson, request: FastifyRequest) =>
    (await perform(tokenList, {}, personActor(person, request), ports)).items;

  const table = async (person: CurrentPerson, request: FastifyRequest): Promise<Table> => {
    const now = clock.now();
    const rows = (await listed(person, request)).map((token) => {
      const { id, name, hint, createdAt, expiresAt, lastUsedAt, revokedAt } = token;
      const state = revokedAt !== null ? 'revoked' : expiresAt <= now ? 'expired' : undefined;
      const question = { text: 'Revoke', href: `${home}/${id}/revoke`, of: name, danger: true };
      return {
        id,
        isOver: state !== undefined,
        cells: [
          {
            kind: 'name',
            text: name,
            badges: state === undefined ? [] : [{ text: state, tone: 'bad' as const }],
          },
          { kind: 'hint', text: hint },
          { kind: 'time', at: lastUsedAt ?? undefined, otherwise: 'never' },
          { kind: 'time', at: expiresAt, otherwise: '' },
          { kind: 'time', at: createdAt, otherwise: '' },
          { kind: 'actions', actions: state === undefined ? [question] : [] },
        ] as const,
      };
    });
    const columns = ['Name', 'Token', 'Last used', 'Expires', 'Created', 'Actions'];
    return {
      caption: 'Personal tokens',
      columns: columns.map((text) => ({ text })),
      rows,
      empty: { text: 'No program acts for you.' },
      now,
    };
  };

  const show = async (
    request: FastifyRequest,
    reply: FastifyReply,
    person: CurrentPerson,
    typed: { name: string; expiry: string; errors: readonly FieldError[] },
  ) => {
    const data = {
      table: await table(person, request),
      isRecent: isRecentProof(person.session, clock.now()),
      notice:
        queryText(request, 'done') === 'revoked'
          ? 'The token is revoked and opens nothing any more.'
          : undefined,
      typed,
      expiries: lives.map((value) => {
        return { value, text: `In ${value} days`, isChosen: value === typed.expiry };
      }),
      errors: typed.errors,
    };
    const status = typed.errors.length > 0 ? 422 : 200;
    return sendPage(reply, tokensPage, data, { person, status, scripts });
  };

  app.get(home, async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    return show(request, reply, person, { name: '', expiry: usualLife, errors: [] });
  });

  app.post(home, async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const sent = readPageForm(request, base, person);
    const typed = { name: sent.get('name') ?? '', expiry: sent.get('expiry') ?? usualLife };
    try {
      const chosen = { name: typed.name, expiresInDays: typed.expiry };
      const made = await perform(tokenCreate, chosen, personActor(person, request), ports);
      const data = {
        heading: `The personal token “${made.name}” is made`,
        next: 'Send it as Authorization: Bearer with every request to the admin API.',
        secret: {
          label: 'Personal token',
          secret: made.token,
          beside: [{ label: 'Admin API', text: `${base}/api/admin` }],
          configurations: [],
          done: home,
        },
      };
      return sendPage(reply, shownOncePage, data, { person, scripts });
    } catch (refusal) {
      const errors = refusedForm(refusal, labels, 'name');
      return show(request, reply, person, { ...typed, errors });
    }
  });

  app.get<{ Params: { id: string } }>(`${home}/:id/revoke`, async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const { id: tokenId } = request.params;
    const token = (await listed(person, request)).find(({ id }) => id === tokenId);
    if (!token) throw notFound('token');
    const data = {
      heading: `Revoke the personal token “${token.name}”?`,
      consequences: ['Whatever uses it administers nothing any more, at once and for good.'],
      action: `${home}/${tokenId}/revoke`,
      verb: 'Revoke the token',
      cancel: home,
    };
    return sendPage(reply, questionPage, data, { person, scripts });
  });

  app.post<{ Params: { id: string } }>(`${home}/:id/revoke`, async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const { id: tokenId } = request.params;
    await perform(tokenRevoke, { tokenId }, personActor(person, request), ports);
    return seeOther(reply, `${home}?done=revoked`);
  });
}
