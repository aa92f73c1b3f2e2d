import { requestCreate, requestWithdraw } from '#admin/access-requests';
import { AdministrationRefusal, notFound } from '#admin/refusal';
import { findOrganization } from '#db/organizations';
import { catalogueOf, type AskableServer } from '#oauth/catalogue';
import { seeOther } from '#web/page-request';
import { titleText } from '#web/titles';
import { formRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import type { DashboardOptions } from './ports.ts';
import { type Question, questionRoutes } from './questions.ts';
import { ownServersPath } from './your-servers.ts';

const path = '/servers/:server/ask';
const needs = 'organization.read';

/** `/servers/{server}/ask`: a person asks for access to a server for which administrators allow requests. */
export function askAccessRoutes(guard: DashboardGuard): void {
  formRoutes(guard, path, needs, {
    form: formFor(requestCreate),
    async page(visit, request, options) {
      const title = titleText(await askable(visit, request, options));
      return {
        heading: `Ask for access to ${title}`,
        lead: 'An administrator decides. The answer appears under Your servers.',
        refused: 'Not asked yet',
        verb: 'Send request',
        cancel: ownServersPath(visit.organization),
        crumbs: crumbsOf(visit, title),
      };
    },
    async act(visit, input, { params }, reply) {
      await visit.perform(requestCreate, { ...input, server: params['server'] });
      return seeOther(reply, `${ownServersPath(visit.organization)}?done=asked`);
    },
  });
  questionRoutes(guard, `${path}/withdraw`, needs, withdrawal);
}

/** The server that the path names. @throws {AdministrationRefusal} `not_found`, also if it exists but does not allow requests */
async function listed(
  { organization, person }: DashboardVisit,
  { params }: DashboardRequest,
  { ports }: DashboardOptions,
): Promise<AskableServer> {
  const found = await findOrganization(ports.db, organization);
  const all = found && (await catalogueOf(person.user.id, found, ports));
  const server = all?.askable.find(({ name }) => name === params['server']);
  if (server) return server;
  throw notFound('server');
}

/** The server that the path names, unless the person has an open request for it. @throws {AdministrationRefusal} `not_found`, `conflict` */
async function askable(...at: Parameters<typeof listed>): Promise<AskableServer> {
  const server = await listed(...at);
  if (server.request?.status !== 'open') return server;
  throw new AdministrationRefusal('conflict', 'you asked for this server already');
}

const withdrawal: Question = {
  async ask(visit, request, options) {
    const asked = await listed(visit, request, options);
    if (asked.request?.status !== 'open') throw notFound('request');
    const title = titleText(asked);
    return {
      heading: `Withdraw your request for ${title}?`,
      consequences: ['The administrators do not see it any more. You can ask again later.'],
      verb: 'Withdraw request',
      cancel: ownServersPath(visit.organization),
      crumbs: crumbsOf(visit, title),
    };
  },
  async act(visit, { params }) {
    await visit.perform(requestWithdraw, { server: params['server'] });
    return `${ownServersPath(visit.organization)}?done=withdrawn`;
  },
};

function crumbsOf({ organization }: DashboardVisit, title: string) {
  return [{ text: 'Your servers', href: ownServersPath(organization) }, { text: title }];
}
