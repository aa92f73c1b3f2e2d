import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { randomBase62 } from '#credentials/secret-format';
import type { UpstreamKind } from '#organizations/server-record';
import type { Input } from '#config/read-options';
import type { Command, Stores } from './command.ts';
import { checkSlug, findOrganization, findServer, splitPath } from './named-server.ts';
import { printMade } from './print.ts';

export const organizationCreate: Command = {
  words: 'organization create',
  positionals: ['ORG'],
  options: [json],
  doc: 'make an organization',
  async run(input, { stores, clock, out }) {
    const name = checkSlug(input.positionals[0] ?? '', 'an organization');
    const id = `org_${randomBase62(16)}`;
    if (!(await stores.organizations.add({ id, name, createdAt: clock.now() }))) {
      throw new CommandError(`there is an organization ${name} already`);
    }
    printMade({ id, name }, { json: input.flag('json'), out });
  },
};

export const serverCreate: Command = {
  words: 'server create',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'http-url', value: 'URL', doc: 'a Streamable HTTP MCP server' },
    { name: 'agent', value: 'NAME', doc: 'an on-premise agent of the organization' },
    { name: 'demo', doc: 'the demo library' },
    json,
  ],
  doc: 'make an MCP endpoint and say where its calls go',
  async run(input, { stores, clock, out }) {
    const { organization, name } = splitPath(input.positionals[0] ?? '');
    const owner = await findOrganization(organization, stores);
    const upstream = await readUpstream(input, organization, stores);
    const id = `srv_${randomBase62(16)}`;
    const createdAt = clock.now();
    const server = { id, organizationId: owner.id, name, upstream, createdAt };
    if (!(await stores.organizations.addServer(server))) {
      throw new CommandError(`there is a server ${organization}/${name} already`);
    }
    const facts = { id, name: `${organization}/${name}`, upstream: upstream.kind };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const serverHideTools: Command = {
  words: 'server hide-tools',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'tool', value: 'NAME', repeated: true, doc: 'a tool nobody may see or call' },
    json,
  ],
  doc: 'hide exactly these tools of a server; none given shows all again',
  async run(input, { stores, out }) {
    const path = input.positionals[0] ?? '';
    const { id } = await findServer(path, stores);
    const hidden = [...new Set(input.list('tool'))];
    await stores.organizations.hideTools(id, hidden);
    printMade({ id, name: path, hidden_tools: hidden }, { json: input.flag('json'), out });
  },
};

async function readUpstream(
  input: Input,
  organization: string,
  stores: Stores,
): Promise<UpstreamKind> {
  const url = input.text('http-url');
  const agentName = input.text('agent');
  const demo = input.flag('demo');
  if ([url !== undefined, agentName !== undefined, demo].filter(Boolean).length !== 1) {
    throw new UsageError('give one of --http-url URL, --agent NAME, --demo');
  }
  if (url !== undefined) return { kind: 'http', url: checkUpstreamUrl(url) };
  if (agentName === undefined) return { kind: 'demo' };
  const agent = await stores.agents.byName(organization, agentName);
  if (agent) return { kind: 'agent', agentId: agent.id };
  throw new CommandError(
    `there is no agent ${organization}/${agentName}`,
    `latchkey-server agent create ${organization}/${agentName}`,
  );
}

function checkUpstreamUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new UsageError(`--http-url '${text}' is not an http or https URL`);
  }
  if (url.username || url.password || url.hash) {
    throw new UsageError('--http-url may hold no user, password or fragment');
  }
  return url.href;
}
