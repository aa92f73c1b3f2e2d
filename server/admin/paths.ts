import { findAgentByName, type Agent } from '#db/agents';
import { findServer, type ServerRecord } from '#db/servers';
import { fields } from './fields.ts';
import type { AdministrationPorts } from './operation.ts';
import { notFound } from './refusal.ts';

/** The fields that name one agent, and its path. */
export const ofAgent = { organization: fields.organization, agent: fields.agent };
export const agentPath = '/organizations/{organization}/agents/{agent}';

/** An agent of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownAgent(
  organization: string,
  name: string,
  { db }: Pick<AdministrationPorts, 'db'>,
): Promise<Agent> {
  const agent = await findAgentByName(db, organization, name);
  if (agent) return agent;
  throw notFound('agent');
}

/** The fields that name one server, its path, and what the audit log calls it. */
export const ofServer = { organization: fields.organization, server: fields.server };
export const serverPath = '/organizations/{organization}/servers/{server}';
export function serverTarget({ organization, server }: Record<keyof typeof ofServer, string>) {
  return `server:${organization}/${server}`;
}

/** A server of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownServer(
  organization: string,
  name: string,
  { db }: Pick<AdministrationPorts, 'db'>,
): Promise<ServerRecord> {
  const server = await findServer(db, organization, name);
  if (server) return server;
  throw notFound('server');
}
