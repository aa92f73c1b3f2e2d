import { findAgentByName, type Agent } from '#db/agents';
import { findServer } from '#db/servers';
import { type ServerRecord } from '#model/endpoints';
import { fields } from './fields.ts';
import type { WithDb } from './operation.ts';
import { notFound } from './refusal.ts';

/** The input fields that name an agent, and its path in the API. */
export const ofAgent = { organization: fields.organization, agent: fields.agent };
export const agentPath = '/organizations/{organization}/agents/{agent}';

/** Finds an agent of an organization. @throws {AdministrationRefusal} `not_found` */
export async function ownAgent(organization: string, name: string, { db }: WithDb): Promise<Agent> {
  const agent = await findAgentByName(db, organization, name);
  if (agent) return agent;
  throw notFound('agent');
}

/** The input fields that name a server, its path in the API, and its name in the audit log. */
export const ofServer = { organization: fields.organization, server: fields.server };
export const serverPath = '/organizations/{organization}/servers/{server}';
export function serverTarget({ organization, server }: Record<keyof typeof ofServer, string>) {
  return `server:${organization}/${server}`;
}

/** Finds a server of an organization. @throws {AdministrationRefusal} `not_found` */
export async function ownServer(
  organization: string,
  name: string,
  { db }: WithDb,
): Promise<ServerRecord> {
  const server = await findServer(db, organization, name);
  if (server) return server;
  throw notFound('server');
}
