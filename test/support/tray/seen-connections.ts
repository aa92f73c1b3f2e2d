import type { ConnectionView } from '#proxy/connections/accounts-service';

const hour = 3600;
const now = () => Math.floor(Date.now() / 1000);

/** A connection as the accounts service lists it, signed in and working by default. */
export function seenConnection(given: Partial<ConnectionView> = {}): ConnectionView {
  const name = given.name ?? 'library';
  return {
    name,
    url: `https://cloud.example.com/mcp/acme/${encodeURIComponent(name)}`,
    source: { file: '/home/dana/.config/latchkey/connections.json', own: true },
    as: 'person',
    state: 'ready',
    issuer: 'https://cloud.example.com',
    scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
    expiresAt: now() + hour - 60,
    renewable: true,
    proxies: [],
    startedBy: [],
    ...given,
  };
}

/** One connection in each state. */
export function everyState(): ConnectionView[] {
  const url = (server: string) => `https://cloud.example.com/mcp/acme/${server}`;
  const proxy = (name: string, state: ConnectionView['proxies'][number]['state']) => ({
    pid: 4711,
    startedAt: now() - hour,
    version: '0.1.0',
    name,
    url: url(name),
    assistant: { name: 'Claude Desktop', version: '1.4.0' },
    state,
    sinceAt: now() - hour,
    lastCall: { at: now() - 150, method: 'tools/call', outcome: 'ok' as const, durationMs: 83 },
  });
  const secret = {
    kind: 'api_key' as const,
    storedAt: now() - 97 * 24 * hour,
    old: true,
    onTrial: false,
    dashboardUrl: 'https://cloud.example.com/servers/acme/nightly/keys',
  };
  const keyed = { as: 'api_key' as const, renewable: false, scopes: [], secret };
  const { expiresAt: _, issuer: __, ...plain } = seenConnection();
  return [
    seenConnection({ startedBy: ['claude-desktop'], proxies: [proxy('library', 'ready')] }),
    {
      ...plain,
      name: 'sales',
      url: url('sales'),
      renewable: false,
      scopes: [],
      state: 'needs_sign_in',
      reason: 'Not signed in. An assistant is waiting for you.',
      proxies: [proxy('sales', 'needs_sign_in')],
      startedBy: ['claude-desktop', 'cursor'],
    },
    { ...plain, ...keyed, name: 'nightly', url: url('nightly'), startedBy: ['cursor'] },
    {
      ...plain,
      ...keyed,
      name: 'warehouse',
      url: url('warehouse'),
      as: 'client',
      secret: { ...secret, kind: 'client_secret', old: false, storedAt: now() - 9 * 24 * hour },
      state: 'trouble',
      reason: 'The server refuses the client: it was revoked on 3 November.',
    },
    seenConnection({
      name: 'wiki',
      url: 'https://wiki.example.org/mcp',
      state: 'offline',
      reason: 'wiki.example.org cannot be reached. Latchkey keeps retrying.',
      scopes: [],
    }),
  ];
}
