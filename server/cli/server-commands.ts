import {
  serverCreate as create,
  serverDelete as remove,
  serverDisable as disable,
  serverEnable as enable,
  serverList as list,
  serverRead as read,
  serverUpdate as update,
} from '#administration/server-operations';
import type { GivenHeader } from '#administration/upstream-header-changes';
import { json, masterKeyFile, type Option } from '#config/option';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import { administer, administerList } from './administer.ts';
import type { Command } from './command.ts';
import { findListed, findOrganization, placeOf, splitPath } from './named-server.ts';
import { printMade, printRows } from './print.ts';
import { httpHeaderFile, readHeaders } from './read-headers.ts';
import { readUpstream, upstreamOptions } from './read-upstream.ts';

const path = ['ORG/SERVER'];
const words: readonly Option[] = [
  { name: 'title', value: 'T', doc: 'what people call it' },
  { name: 'description', value: 'D', doc: 'what it is for' },
  { name: 'instructions', value: 'I', doc: 'what an assistant is told about using it' },
];

const changedTools: Option = {
  name: 'changed-tools',
  value: 'flag|withhold',
  doc: 'what becomes of a tool that turns into another one',
};

export const serverCreate: Command = {
  words: 'server create',
  positionals: path,
  options: [...upstreamOptions, httpHeaderFile, masterKeyFile, json],
  doc: 'make an MCP endpoint and say where its calls go',
  async run(input, { out, ...ports }) {
    const { organization, name } = splitPath(input.positionals[0] ?? '');
    await findOrganization(organization, ports.stores);
    const headers = headersBeside(input);
    const upstream = { ...(await readUpstream(input, organization, ports.stores)), ...headers };
    const { id } = await administer(create, { organization, name, upstream }, ports);
    const facts = { id, name: `${organization}/${name}`, upstream: upstream.kind };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const serverList: Command = {
  words: 'server list',
  positionals: ['ORG'],
  options: [json],
  doc: 'list MCP endpoints, and where their calls go',
  async run(input, { out, ...ports }) {
    const { organization } = await findListed(input.positionals[0] ?? '', ports.stores);
    const servers = await administerList(list, { organization }, ports);
    const rows = servers.map(({ upstream, ...server }) => ({
      id: server.id,
      name: `${organization}/${server.name}`,
      title: server.title,
      upstream: upstream.kind,
      upstream_url: upstream.kind === 'http' ? upstream.url : null,
      agent: upstream.kind === 'agent' ? upstream.agent : null,
      hidden_tools: server.hiddenTools,
      withheld_tools: server.withheldTools,
      created_at: server.createdAt,
      disabled_at: server.disabledAt,
    }));
    const empty = 'no servers yet: latchkey-server server create ORG/SERVER --http-url URL';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const serverUpdate: Command = {
  words: 'server update',
  positionals: path,
  options: [...words, changedTools, ...upstreamOptions, httpHeaderFile, masterKeyFile, json],
  doc: 'change a server; what is not given stays, and counts from the next call on',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const chosen = words.map(({ name }) => [name, input.text(name)] as const);
    const given = Object.fromEntries(chosen.filter(([, text]) => text !== undefined));
    const closes = input.text('changed-tools');
    const moves = ['http-url', 'agent'].some((name) => input.text(name)) || input.flag('demo');
    const headers = headersBeside(input);
    const upstream = moves && {
      ...(await readUpstream(input, at.organization, ports.stores)),
      ...headers,
    };
    const changed = await administer(
      update,
      { ...at, ...given, ...(closes && { changedTools: closes }), ...(upstream && { upstream }) },
      ports,
    );
    const { title, description, instructions } = changed;
    const facts = { name: `${at.organization}/${at.server}`, title, description, instructions };
    const { removedHeaders: removed } = changed;
    const shown = { id: changed.id, ...facts, upstream: changed.upstream.kind };
    printMade({ ...shown, removed_headers: removed }, { json: input.flag('json'), out });
    if (removed.length > 0 && !input.flag('json')) {
      const names = removed.map((name) => `--http-header-file ${name}=FILE`).join(' ');
      out('hint: the removed headers were entered for another origin: enter them again with');
      out(`      latchkey-server server set-header ${facts.name} ${names}`);
    }
  },
};

export const serverHideTools: Command = {
  words: 'server hide-tools',
  positionals: path,
  options: [
    { name: 'tool', value: 'NAME', repeated: true, doc: 'a tool nobody may see or call' },
    json,
  ],
  doc: 'hide exactly these tools of a server; none given shows all again',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const { id, hiddenTools } = await administer(
      update,
      { ...at, hiddenTools: [...input.list('tool')] },
      ports,
    );
    const facts = { id, name: `${at.organization}/${at.server}`, hidden_tools: hiddenTools };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const serverDisable = switching('disable', 'let a server serve nobody, at once');
export const serverEnable = switching('enable', 'let a disabled server serve again');

function switching(verb: 'disable' | 'enable', doc: string): Command {
  return {
    words: `server ${verb}`,
    positionals: path,
    options: [json],
    doc,
    async run(input, { out, ...ports }) {
      const at = await placeOf(input.positionals[0] ?? '', ports);
      const operation = verb === 'disable' ? disable : enable;
      const { id, disabledAt } = await administer(operation, at, ports);
      const facts = { id, name: `${at.organization}/${at.server}`, disabled_at: disabledAt };
      printMade(facts, { json: input.flag('json'), out });
    },
  };
}

export const serverDelete: Command = {
  words: 'server delete',
  positionals: path,
  options: [{ name: 'yes', doc: 'do it; without this it says what would stop working' }, json],
  doc: 'remove a server with its clients, keys and grants, at once and for good',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const name = `${at.organization}/${at.server}`;
    if (!input.flag('yes')) {
      const { activeClients, activeKeys, activeGrants } = await administer(read, at, ports);
      throw new CommandError(
        `nothing was removed: with ${name} would end OAuth clients (${activeClients}), MCP keys (${activeKeys}) and grants of people (${activeGrants})`,
        `latchkey-server server delete ${name} --yes`,
      );
    }
    const { id } = await administer(remove, at, ports);
    printMade({ id, name, removed_at: ports.clock.now() }, { json: input.flag('json'), out });
  },
};

/** The fixed headers that were given, for an HTTP server alone. @throws {UsageError} @throws {CommandError} */
function headersBeside(input: Input): { headers?: GivenHeader[] } {
  const headers = readHeaders(input);
  if (headers.length === 0) return {};
  if (input.text('http-url') !== undefined) return { headers };
  const hint = 'latchkey-server server set-header ORG/SERVER --http-header-file NAME=FILE';
  throw new UsageError('--http-header-file goes with --http-url', hint);
}
