import { type Role, roles as everyRole } from './roles.ts';
import type { ToolSelection } from './tool-rights.ts';

/** What a scope allows, for people who have never heard of scopes. */
export interface ScopeSentence {
  /** For the person who grants it. */
  readonly text: string;
  /** For a client or key, even one that acts for itself; absent if the same sentence fits. */
  readonly ownText?: string | undefined;
  /** The risk to point out, if any. */
  readonly risk?: string | undefined;
}

/** The roles, methods and notifications that depend on a scope. A `*` at the end stands for any ending. */
interface ScopeRules extends ScopeSentence {
  /** The roles that may grant it. */
  readonly roles: readonly Role[];
  /** The JSON-RPC methods that it is needed for. */
  readonly methods?: readonly string[];
  /** The notifications that are withheld from callers without it. */
  readonly notifications?: readonly string[];
  /** The kinds of notification that `subscriptions/listen` may ask for with it. MCP 2026-07-28 */
  readonly subscriptions?: readonly string[];
}

/** Everything that depends on a scope. The order is that of all lists of scopes. */
const scopeTable = {
  'mcp:tools:read': {
    text: 'See which tools the server has',
    roles: everyRole,
    methods: ['tools/list'],
    notifications: ['notifications/tools/*'],
    subscriptions: ['toolsListChanged'],
  },
  'mcp:tools:execute': {
    text: 'Use those tools on your behalf',
    ownText: 'Use those tools',
    risk: 'A tool can change or send data as well as read it.',
    roles: everyRole,
    methods: ['tools/call', 'tasks/*'],
    // Covers the notifications of 2025-11-25, and that of the tasks extension, whose name ends with `tasks`.
    notifications: ['notifications/tasks*'],
  },
  'mcp:resources:read': {
    text: 'Read the documents, skills and prompts of the server',
    roles: everyRole,
    methods: ['resources/*', 'prompts/*', 'skills/*', 'completion/complete'],
    notifications: ['notifications/resources/*', 'notifications/prompts/*'],
    subscriptions: ['promptsListChanged', 'resourcesListChanged', 'resourceSubscriptions'],
  },
  'mcp:server:read': { text: 'See how the server is set up', roles: everyRole },
  'mcp:server:manage': {
    text: 'Change how the server is set up',
    risk: 'This changes the server for everyone who uses it.',
    roles: ['owner', 'admin'],
  },
} satisfies Record<string, ScopeRules>;

/** The methods that every valid credential may call. */
const methodsForAll = [
  'initialize',
  'ping',
  'server/discover',
  'logging/setLevel',
  'subscriptions/listen',
  'notifications/*',
];

// Upstreams see one client for all callers, so the list would contain everyone's tasks.
const methodsForNobody: ReadonlySet<string> = new Set(['tasks/list']);

export type Scope = keyof typeof scopeTable;

export function isScope(text: string): text is Scope {
  return Object.hasOwn(scopeTable, text);
}

/** All scopes, in the order in which they are listed. */
export const allScopes: readonly Scope[] = Object.keys(scopeTable).filter(isScope);

/** The scopes for using a server; none for administering it. */
export const ordinaryScopes: readonly Scope[] = [
  'mcp:tools:read',
  'mcp:tools:execute',
  'mcp:resources:read',
];

/** The scopes of an MCP key unless its creator chose others. */
export const defaultKeyScopes: readonly Scope[] = allScopes.filter(
  (scope) => scope !== 'mcp:server:manage',
);

function rulesOf(scope: Scope): ScopeRules {
  return scopeTable[scope];
}

export function scopeSentence(scope: Scope): ScopeSentence {
  return rulesOf(scope);
}

export function roleScopes(role: Role): readonly Scope[] {
  return allScopes.filter((scope) => rulesOf(scope).roles.includes(role));
}

function listed(member: 'methods' | 'notifications' | 'subscriptions'): [string, Scope][] {
  return allScopes.flatMap((scope) =>
    (rulesOf(scope)[member] ?? []).map((pattern): [string, Scope] => [pattern, scope]),
  );
}

/** The patterns that end in `*`, without the `*`. */
function prefixes<Value>(patterns: readonly [string, Value][]): [string, Value][] {
  return patterns.flatMap(([pattern, value]): [string, Value][] =>
    pattern.endsWith('*') ? [[pattern.slice(0, -1), value]] : [],
  );
}

const methodPatterns: [string, Scope | 'any'][] = [
  ...methodsForAll.map((method): [string, 'any'] => [method, 'any']),
  ...listed('methods'),
];
const scopeByMethod: ReadonlyMap<string, Scope | 'any'> = new Map(methodPatterns);
const scopeByMethodPrefix = prefixes(methodPatterns);

/** The scope that a JSON-RPC method requires; `undefined` for a method that is never forwarded. */
export function methodScope(method: string): Scope | 'any' | undefined {
  if (methodsForNobody.has(method)) return undefined;
  return (
    scopeByMethod.get(method) ??
    scopeByMethodPrefix.find(([prefix]) => method.startsWith(prefix))?.[1]
  );
}

/** The prefixes of notifications that require a scope. */
export const notificationScopes: ReadonlyArray<readonly [prefix: string, Scope]> = prefixes(
  listed('notifications'),
);

const scopeBySubscription: ReadonlyMap<string, Scope> = new Map(listed('subscriptions'));

/** The scope that a kind of notification in `subscriptions/listen` requires; `undefined` for an unknown kind. */
export function subscriptionScope(kind: string): Scope | undefined {
  return scopeBySubscription.get(kind);
}

/** The scopes that remain within these limits. An application that may only read for a person does not administer the server either. */
export function limitedScopes(
  scopes: readonly Scope[],
  limits: readonly Pick<ToolSelection, 'type'>[],
): readonly Scope[] {
  const isReading = limits.some(({ type }) => type === 'read-only');
  return isReading ? scopes.filter((scope) => scope !== 'mcp:server:manage') : scopes;
}

/** Splits a scope parameter. Some clients separate scopes by spaces, others by commas. */
export function scopeWords(text: string): string[] {
  return [...new Set(text.split(/[ ,]+/).filter(Boolean))];
}

/** Formats scopes for a response: without repetition, in the order of `allScopes`, separated by single spaces. RFC 6749 §3.3 */
export function formatScopes(scopes: Iterable<Scope>): string {
  const wanted = new Set(scopes);
  return allScopes.filter((scope) => wanted.has(scope)).join(' ');
}

const openIdScopes = new Set(['openid', 'profile', 'email', 'offline_access']);

/**
 * Removes the four scopes of OpenID Connect, which old clients always send and which mean nothing here. `undefined`
 * if no other scope remains.
 */
export function withoutOpenIdScopes(scope: string | undefined): string | undefined {
  const words = scope?.split(/[ ,]+/).filter((word) => word !== '' && !openIdScopes.has(word));
  return words && words.length > 0 ? words.join(' ') : undefined;
}

/**
 * Removes scopes of this server that a client which registered itself can never have: Gemini CLI requests everything that
 * the metadata of an authorization server lists. Unchanged if no other scope remains. RFC 6749 §3.3
 */
export function withoutUnobtainableScopes(
  scope: string | undefined,
  allowed: readonly Scope[],
): string | undefined {
  const words = scope?.split(/[ ,]+/).filter((word) => !isScope(word) || allowed.includes(word));
  return words?.some(Boolean) ? words.join(' ') : scope;
}
