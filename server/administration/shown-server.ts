import { z } from 'zod';

import type { ServerLimits } from '#organizations/server-limits';
import type { ServerRecord, UpstreamKind } from '#organizations/server-record';
import type { AdministrationPorts } from './administration-ports.ts';
import { notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';

/** The fields that name one server, its path, and what the audit log calls it. */
export const ofServer = { organization: fields.organization, server: fields.server };
export const serverPath = '/organizations/{organization}/servers/{server}';
export function serverTarget({ organization, server }: Record<keyof typeof ofServer, string>) {
  return `server:${organization}/${server}`;
}

const shownUpstream = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('demo') }),
  z.object({ kind: z.literal('http'), url: z.string() }),
  z.object({ kind: z.literal('agent'), agent: z.string().describe('The name of the agent') }),
  z.object({ kind: z.literal('stdio') }).describe('A command that the operator configured'),
]);

const maybeLimit = z.int().nullable();
const shownLimits = z
  .object({
    callsPerMinute: maybeLimit.describe(
      'Requests of one caller in any minute; notifications, and streams to listen by, twice as many each',
    ),
    concurrentCalls: maybeLimit.describe(
      'Requests of one caller under way at once; streams by which it listens four times as many',
    ),
    requestBytes: maybeLimit.describe('The largest body of a request'),
    answerBytes: maybeLimit.describe('The largest answer'),
    callSeconds: maybeLimit.describe('The longest that a request and its answer may take'),
  })
  .describe('null where only what holds for every server does');

/** Limits as every surface shows them, each of them there. */
export function showLimits(limits: ServerLimits = {}): z.output<typeof shownLimits> {
  return {
    callsPerMinute: limits.callsPerMinute ?? null,
    concurrentCalls: limits.concurrentCalls ?? null,
    requestBytes: limits.requestBytes ?? null,
    answerBytes: limits.answerBytes ?? null,
    callSeconds: limits.callSeconds ?? null,
  };
}

/** A server as every surface shows it. */
export const shownServer = z
  .object({
    id: z.string(),
    organization: z.string(),
    name: z.string(),
    endpoint: z.string().describe('The path of its MCP endpoint'),
    title: z.string(),
    description: z.string(),
    instructions: z.string().describe('What an assistant is told about using it'),
    upstream: shownUpstream,
    hiddenTools: z.array(z.string()).describe('Tools that are neither listed nor callable'),
    changedTools: z
      .enum(['flag', 'withhold'])
      .describe('What becomes of a tool that turns into another one'),
    withheldTools: z.array(z.string()).describe('Tools that are closed for that reason now'),
    limits: shownLimits,
    revision: z.int().describe('Another after each change'),
    createdAt: fields.at,
    disabledAt: fields.maybeAt,
  })
  .meta({ id: 'Server' });

/** Times in seconds since 1970, `null` for what never was; texts that were not given are empty. */
export type ShownServer = z.output<typeof shownServer>;

/** A server as it is kept, as every surface shows it. `agentNames` are those of the agents that serve it, by their id. */
export function showServer(
  server: ServerRecord,
  agentNames: ReadonlyMap<string, string>,
): ShownServer {
  const { id, organization, name, hiddenTools, changedTools, withheldTools, createdAt } = server;
  return {
    id,
    organization,
    name,
    endpoint: `/mcp/${organization}/${name}`,
    title: server.title ?? '',
    description: server.description ?? '',
    instructions: server.instructions ?? '',
    upstream: showUpstream(server.upstream, agentNames),
    hiddenTools: [...hiddenTools],
    changedTools,
    withheldTools: [...withheldTools],
    limits: showLimits(server.limits),
    revision: server.revision ?? 0,
    createdAt,
    disabledAt: server.disabledAt ?? null,
  };
}

function showUpstream(
  upstream: UpstreamKind,
  agentNames: ReadonlyMap<string, string>,
): z.output<typeof shownUpstream> {
  switch (upstream.kind) {
    case 'demo':
    case 'stdio':
      return { kind: upstream.kind };
    case 'http':
      return { kind: 'http', url: upstream.url };
    case 'agent':
      return { kind: 'agent', agent: agentNames.get(upstream.agentId) ?? '' };
  }
}

/** The names of the agents that serve these servers, by their id. */
export async function agentNamesOf(
  servers: readonly Pick<ServerRecord, 'upstream'>[],
  { agentDirectory }: Pick<AdministrationPorts, 'agentDirectory'>,
): Promise<ReadonlyMap<string, string>> {
  const ids = servers.flatMap(({ upstream }) =>
    upstream.kind === 'agent' ? [upstream.agentId] : [],
  );
  return agentDirectory.names([...new Set(ids)]);
}

/** A server of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownServer(
  organization: string,
  name: string,
  { organizations }: Pick<AdministrationPorts, 'organizations'>,
): Promise<ServerRecord> {
  const server = await organizations.serverByName(organization, name);
  if (server) return server;
  throw notFound('server');
}
