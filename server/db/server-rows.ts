// How a row of an endpoint with its target is read.

import type { Selectable } from 'kysely';

import type { ServerRecord, Target } from '#model/endpoints';
import { type FixedHeader, fixedHeadersSchema } from '#model/fixed-headers';
import { type PersonKeyRule, personKeyRuleSchema } from '#model/person-keys';
import { limitNames, type ServerLimits } from '#model/server-limits';
import { readAccessRules, readOffered } from '#model/tool-rights';
import { readUpstream, type UpstreamKind } from '#model/upstream-kinds';
import { readContentSettings } from './call-contents.ts';
import { readStrings } from './columns.ts';
import type { Schema } from './schema.ts';

/** The columns that a target is read from, except its id. */
export const targetColumns = [
  'upstream_kind',
  'upstream_settings',
  'upstream_access_id',
  'upstream_forwards_caller',
  'upstream_headers',
  'upstream_key',
  'agent_id',
  'hidden_tools',
  'changed_tools',
  'new_tools',
  'tool_rules',
  'offered',
  'call_contents',
] as const;

type EndpointColumns = Selectable<Schema['endpoint']>;
type TargetColumns = Selectable<Schema['target']>;

export type ServerRow = { organization: string; target_id: string } & Pick<
  EndpointColumns,
  'id' | 'name' | 'limits' | 'created_at'
> &
  Partial<
    Pick<EndpointColumns, 'title' | 'description' | 'instructions' | 'revision' | 'disabled_at'>
  > &
  Pick<TargetColumns, (typeof targetColumns)[number]> &
  Partial<Pick<TargetColumns, 'upstream_headers_refused_at'>>;

export function readServer(row: ServerRow): ServerRecord {
  return {
    id: row.id,
    organization: row.organization,
    name: row.name,
    ...(row.title && { title: row.title }),
    ...(row.description && { description: row.description }),
    ...(row.instructions && { instructions: row.instructions }),
    ...(row.limits && { limits: readLimits(row.limits) }),
    ...(row.revision !== undefined && { revision: row.revision }),
    createdAt: row.created_at,
    ...(typeof row.disabled_at === 'number' && { disabledAt: row.disabled_at }),
    target: readTarget(row),
  };
}

function readTarget(row: ServerRow): Target {
  return {
    id: row.target_id,
    organization: row.organization,
    name: row.name,
    upstream: upstreamOf(row),
    hiddenTools: readStrings(row.hidden_tools),
    changedTools: row.changed_tools === 'withhold' ? 'withhold' : 'flag',
    newTools: row.new_tools === 'review' ? 'review' : 'offer',
    offered: readOffered(row.offered),
    ...(row.upstream_key && { personKey: readPersonKeyRule(row.upstream_key) }),
    ...(row.tool_rules && { rules: readAccessRules(row.tool_rules) }),
    ...(row.call_contents && { contents: readContentSettings(row.call_contents) }),
  };
}

function readLimits(text: string): ServerLimits {
  const stored: unknown = JSON.parse(text);
  const pairs = limitNames.flatMap((name) => {
    const value: unknown = Reflect.get(Object(stored), name);
    return typeof value === 'number' ? [[name, value] as const] : [];
  });
  return Object.fromEntries(pairs);
}

function readPersonKeyRule(text: string): PersonKeyRule {
  return personKeyRuleSchema.parse(JSON.parse(text));
}

function readHeaders(text: string): FixedHeader[] {
  return fixedHeadersSchema.parse(JSON.parse(text));
}

type UpstreamRow = Pick<
  ServerRow,
  'target_id' | 'upstream_kind' | 'upstream_settings' | 'agent_id'
> &
  Partial<ServerRow>;

export function upstreamOf(row: UpstreamRow): UpstreamKind {
  const upstream = readUpstream({
    kind: row.upstream_kind,
    settings: row.upstream_settings,
    agentId: row.agent_id,
    credentials: {
      ...(row.upstream_access_id && { accessId: row.upstream_access_id }),
      ...(row.upstream_forwards_caller === 1 && { forwardsCaller: true }),
      ...(row.upstream_headers && { headers: readHeaders(row.upstream_headers) }),
      ...(row.upstream_headers_refused_at && { headersRefusedAt: row.upstream_headers_refused_at }),
    },
  });
  if (upstream) return upstream;
  throw new TypeError(`target ${row.target_id} has no upstream that this program knows`);
}
