// The public data of published servers, in the formats of the MCP registry API v0.1, of server cards, and of the AI catalog that lists
// the cards. They contain nothing else about a server.

import type { EpochSeconds } from '#model/clock';

/** The public texts of a published server, and its path. */
export interface PublicServer {
  readonly organization: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly version: number;
  readonly publishedAt: EpochSeconds;
  readonly updatedAt: EpochSeconds;
}

export const cardType = 'application/mcp-server-card+json';
export const catalogueType = 'application/ai-catalog+json';
export const cataloguePath = '/.well-known/ai-catalog.json';
/** The most characters of a title and of a description. server.schema.json 2025-12-11 */
export const mostPublicCharacters = 100;
const entrySchema = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json';
const cardSchema = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json';
/** The longest host in a registry name, which stays within 200 characters with two names of 63 characters and separators. */
const mostOfHost = 70;

/** The URL that clients get as the address of a registry: they append `/v0.1/servers`. */
export function registryUrl(base: string, organization: string): string {
  return `${base}/registry/${organization}`;
}

export function cardUrl(base: string, organization: string, server: string): string {
  return `${endpointUrl(base, organization, server)}/server-card`;
}

function endpointUrl(base: string, organization: string, server: string): string {
  return `${base}/mcp/${organization}/${server}`;
}

/** `com.example.latchkey/acme.sales`. Names of organizations and servers contain no dot, so no two are the same. */
export function registryName(
  base: string,
  { organization, name }: Pick<PublicServer, 'organization' | 'name'>,
): string {
  const host = new URL(base).hostname.replaceAll(/[^a-z0-9.-]/g, '');
  // The labels of a domain are reversed, the numbers of an IP address are not.
  const isAddress = /^[\d.]+$/.test(host) || base.includes('[');
  const reversed = isAddress ? host : host.split('.').toReversed().join('.');
  return `${reversed.slice(0, mostOfHost) || 'local'}/${organization}.${name}`;
}

/** A version that grows with each change of the texts. */
export function publicVersion({ version }: Pick<PublicServer, 'version'>): string {
  return `1.0.${version - 1}`;
}

/** A server as the registry lists it. Registry API `ServerResponse` */
export function registryEntry(base: string, server: PublicServer) {
  const { publishedAt, updatedAt } = server;
  return {
    server: { $schema: entrySchema, ...publicFacts(base, server) },
    _meta: {
      'io.modelcontextprotocol.registry/official': {
        status: 'active',
        publishedAt: isoTime(publishedAt),
        updatedAt: isoTime(updatedAt),
        isLatest: true,
      },
    },
  };
}

/** SEP-2127 */
export function serverCard(base: string, server: PublicServer) {
  return { $schema: cardSchema, ...publicFacts(base, server) };
}

/** The catalogue of everything that is published at this address. */
export function aiCatalogue(base: string, servers: readonly PublicServer[]) {
  const { hostname } = new URL(base);
  return {
    specVersion: '1.0',
    entries: servers.map(({ organization, name }) => ({
      identifier: `urn:air:${hostname}:mcp:${organization}.${name}`,
      type: cardType,
      url: cardUrl(base, organization, name),
    })),
  };
}

function publicFacts(base: string, server: PublicServer) {
  const { organization, name, title, description } = server;
  return {
    name: registryName(base, server),
    ...(title !== '' && { title }),
    description,
    version: publicVersion(server),
    remotes: [{ type: 'streamable-http', url: endpointUrl(base, organization, name) }],
  };
}

function isoTime(at: EpochSeconds): string {
  return new Date(at * 1000).toISOString();
}

/** The part of the list that a client requests. */
export interface RegistryQuery {
  readonly cursor?: string | undefined;
  readonly limit: number;
  readonly search?: string | undefined;
  readonly updatedSince?: EpochSeconds | undefined;
  readonly version?: string | undefined;
}

/** A page of the registry of one organization, whose servers are ordered by name. Registry API `ServerList` */
export function registryPage(
  base: string,
  servers: readonly PublicServer[],
  { cursor, limit, search = '', updatedSince = 0, version = 'latest' }: RegistryQuery,
) {
  const found = servers.filter(
    (server) =>
      registryName(base, server).toLowerCase().includes(search.toLowerCase()) &&
      server.updatedAt >= updatedSince &&
      (version === 'latest' || version === publicVersion(server)),
  );
  const rest = cursor === undefined ? found : found.filter(({ name }) => name > cursor);
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return {
    servers: page.map((server) => registryEntry(base, server)),
    metadata: {
      count: page.length,
      ...(last && rest.length > limit && { nextCursor: last.name }),
    },
  };
}
