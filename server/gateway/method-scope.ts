import type { Scope } from '#credentials/scope';

const byMethod: Readonly<Record<string, Scope | 'any'>> = {
  initialize: 'any',
  ping: 'any',
  'server/discover': 'any',
  'logging/setLevel': 'any',
  'subscriptions/listen': 'any',
  'tools/list': 'mcp:tools:read',
  'tools/call': 'mcp:tools:execute',
  'completion/complete': 'mcp:resources:read',
};

const byPrefix: ReadonlyArray<readonly [string, Scope | 'any']> = [
  ['notifications/', 'any'],
  ['tasks/', 'mcp:tools:execute'],
  ['resources/', 'mcp:resources:read'],
  ['prompts/', 'mcp:resources:read'],
  ['skills/', 'mcp:resources:read'],
];

// The upstream cannot tell its callers apart here, so its list would hold everybody's tasks.
const never: ReadonlySet<string> = new Set(['tasks/list']);

/** The scope that a JSON-RPC method needs; `undefined` for a method that is never forwarded. */
export function methodScope(method: string): Scope | 'any' | undefined {
  if (never.has(method)) return undefined;
  if (Object.hasOwn(byMethod, method)) return byMethod[method];
  return byPrefix.find(([prefix]) => method.startsWith(prefix))?.[1];
}
