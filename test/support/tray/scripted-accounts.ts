import {
  AccountsError,
  type AccountsService,
  type ConnectionView,
  type ServerListView,
  type SignedIn,
} from '#proxy/connections/accounts-service';
export { printable } from '#mcp/safe-text';
export { helperEnvironment } from '#proxy/config/options';
export { packagedLauncher } from '#proxy/config/launch-entry';
import type { ToApp } from './wire.ts';

export { AccountsError };

/**
 * An accounts service whose connections the test sets, for states that are hard to reach. It accepts every key but one
 * that contains `wrong`. Its sign-ins wait until they are cancelled. If a URL or key contains `slow`, a call
 * waits until the test lets it continue, so that the window can be watched meanwhile.
 */
export function openAccounts(): AccountsService {
  let connections: ConnectionView[] = [];
  let changed = Promise.withResolvers<void>();
  let failure: AccountsError | undefined;
  const now = () => Math.floor(Date.now() / 1000);
  const claimed = new Set<string>();
  const starts = new Map<string, string[]>([['claude-desktop', ['sales']]]);
  const dana = 'dana@acme.example';
  const held: (() => void)[] = [];
  let goingOn = 0;
  let isSetUp = false;
  let devices = [
    {
      id: 'device_here',
      name: 'danas-desktop',
      system: 'Linux',
      isCurrent: true,
      lastUsedAt: now() - 60,
    },
    { id: 'device_lost', name: 'danas-macbook', system: 'macOS', isCurrent: false },
  ].map((device) =>
    Object.assign(device, { assistants: ['Claude Desktop'], servers: ['acme/sales'] }),
  );
  const slowly = async (text: string): Promise<void> => {
    if (!text.includes('slow')) return;
    if (goingOn > 0) goingOn -= 1;
    else await new Promise<void>((resolve) => held.push(resolve));
  };
  const goOn = () => {
    const next = held.shift();
    if (next) next();
    else goingOn += 1;
  };
  const change = (to: ConnectionView[]) => {
    connections = to;
    changed.resolve();
    changed = Promise.withResolvers();
  };
  process.on('message', (message: ToApp) => {
    if (message.act === 'scripted') change(message.connections);
    if (message.act === 'scriptedGoOn') goOn();
    if (message.act === 'scriptedFailure') {
      failure = new AccountsError('configuration', message.words, 'fix the file in an editor');
      change(connections);
    }
  });

  /** Signs all connections in or out that share the sign-in of `name`. */
  const shareSignIn = (name: string, signedIn: boolean) => {
    const { issuer = '', clientId = '' } =
      connections.find((one) => one.name === name)?.company ?? {};
    const company = signedIn
      ? { issuer, clientId, signedIn, signedInAs: dana, expiresAt: now() + 3000, renewable: true }
      : { issuer, clientId, signedIn, renewable: false };
    const state = signedIn ? ('ready' as const) : ('needs_sign_in' as const);
    change(connections.map((one) => (one.company ? { ...one, company, state } : one)));
    return { issuer };
  };

  const rotate = async (name: string, secret: string) => {
    const found = connections.find((one) => one.name === name);
    await slowly(secret);
    if (secret.includes('wrong'))
      throw new AccountsError(
        'unauthorized',
        `${found?.url} did not accept the new key`,
        'copy it again from the dashboard; the old one is still in use',
      );
    change(
      connections.map((one) =>
        one.name === name && one.secret
          ? {
              ...one,
              state: 'ready',
              secret: { ...one.secret, storedAt: now(), old: false, onTrial: true },
            }
          : one,
      ),
    );
    return { name, onTrial: true, dashboardUrl: found?.secret?.dashboardUrl ?? '' };
  };

  return {
    listConnections: async () => connections,
    async *watch(signal) {
      while (!signal.aborted) {
        const next = changed.promise;
        if (failure) {
          const once = failure;
          failure = undefined;
          throw once;
        }
        yield connections;
        await next;
      }
    },
    async probe(url) {
      if (!URL.canParse(url))
        throw new AccountsError('url', `${url} is no URL`, 'it begins with https://');
      await slowly(url);
      return {
        url,
        needs: 'person',
        takes: ['person', 'client', 'api_key'],
        serverName: 'Acme sales',
        suggestedName: 'sales',
        issuer: new URL(url).origin,
        scopes: ['mcp:tools:read', 'mcp:tools:execute'],
        needsClientId: false,
      };
    },
    readPasted: async () => ({
      name: 'acme',
      url: 'https://cloud.example.com/mcp/acme/sales',
      clientId: 'client_3kTMd0PqXz81LbCsV7nRwY5e',
      scopes: ['mcp:tools:read', 'mcp:tools:execute'],
      as: 'client',
    }),
    async add({ name, url, ...rest }) {
      await slowly(url);
      if ('apiKeySecret' in rest && rest.apiKeySecret.includes('wrong'))
        throw new AccountsError(
          'unauthorized',
          `${url} did not accept the API key`,
          'copy it again from the dashboard; nothing was kept',
        );
      return { name, url, checked: rest.as === 'pasted' ? 'client' : rest.as };
    },
    async remove(name) {
      change(connections.filter((one) => one.name !== name));
      return { wasSignedIn: true, startedBy: [] };
    },
    async signIn(_name, { signal, progress }) {
      const { promise, reject } = Promise.withResolvers<SignedIn>();
      progress?.({
        step: 'waiting',
        page: 'https://cloud.example.com/oauth/consent?state=abc',
        browserOpened: true,
      });
      signal?.addEventListener('abort', () =>
        reject(new AccountsError('aborted', 'the sign-in was cancelled', '')),
      );
      return promise;
    },
    signOut: async () => ({ wasSignedIn: true }),
    myServers: async () => (isSetUp ? [scriptedServers(dana)] : []),
    async setUp(url, { progress }) {
      if (url.includes('wrong'))
        throw new AccountsError(
          'usage',
          `${url} is not the address of a Latchkey server`,
          'enter the address that your company gave you, without a path: https://latchkey.example.com',
        );
      progress?.({
        step: 'waiting',
        page: 'https://latchkey.example.com/oauth/consent?state=abc',
        browserOpened: true,
      });
      await new Promise<void>((resolve) => held.push(resolve));
      isSetUp = true;
      const { servers } = scriptedServers(dana);
      return {
        url: 'https://latchkey.example.com',
        signedInAs: dana,
        servers: servers.slice(0, 1).map((server) => ({ name: 'sales', server, isNew: true })),
        restart: ['Claude Desktop', 'Cursor'],
        problems: [],
      };
    },
    devices: async () =>
      isSetUp
        ? [
            {
              list: 'https://latchkey.example.com/api/my/servers',
              url: 'https://latchkey.example.com',
              devices: devices.map((device) =>
                Object.assign(device, { signedInAt: now() - 86_400 }),
              ),
            },
          ]
        : [],
    async signOutDevice(_list, id) {
      const isThere = devices.some((device) => device.id === id);
      devices = devices.filter((device) => device.id !== id);
      return isThere;
    },
    async signInCompany(name, { progress }) {
      progress?.({
        step: 'waiting',
        page: 'https://id.acme.example/authorize?state=abc',
        browserOpened: true,
      });
      await new Promise<void>((resolve) => held.push(resolve));
      const { issuer } = shareSignIn(name, true);
      const names = connections.flatMap((one) => (one.company ? [one.name] : []));
      return { issuer, signedInAs: dana, connections: names, unsupported: [], refused: [] };
    },
    async signOutCompany(name) {
      const { issuer } = shareSignIn(name, false);
      const names = connections.flatMap((one) => (one.company ? [one.name] : []));
      return { issuer, connections: names, notRevoked: [] };
    },
    async rename(from, to) {
      if (connections.some(({ name }) => name === to))
        throw new AccountsError('usage', `${to} already exists`, 'choose another name');
      change(connections.map((one) => (one.name === from ? { ...one, name: to } : one)));
      const launch = { assistant: 'cursor', title: 'Cursor', file: '/home/dana/.cursor/mcp.json' };
      return { url: '', assistants: [launch] };
    },
    async reconnect(name) {
      if (name !== 'library') return 1;
      throw new AccountsError('io', 'the status folder cannot be read', 'check its permissions');
    },
    rotateKey: rotate,
    rotateSecret: rotate,
    undoRotation: async () => true,
    assistants: async () => [
      assistant('claude-desktop', 'Claude Desktop', '.config/Claude/claude_desktop_config.json'),
      assistant('cursor', 'Cursor', '.cursor/mcp.json'),
      {
        ...assistant('vscode', 'VS Code', '.config/Code/User/mcp.json'),
        problem: 'is not valid JSON',
      },
      { ...assistant('gemini', 'Gemini CLI', '.gemini/settings.json'), found: false },
    ],
    async install(id, name) {
      starts.set(id, [...(starts.get(id) ?? []), name]);
      return { file: '', changed: true, backup: '/home/dana/.cursor/mcp.json.2026-11-20.bak' };
    },
    async uninstall(id, name) {
      starts.set(
        id,
        (starts.get(id) ?? []).filter((one) => one !== name),
      );
      return { file: '', did: 'restored' };
    },
    importable: async () => ({
      entries: [
        {
          file: '/home/dana/.cursor/mcp.json',
          entry: 'tickets',
          name: 'tickets',
          url: 'https://tickets.example.com/mcp',
          moved: ['sign-in'],
          fromMcpRemote: true,
        },
      ],
      problems: [],
    }),
    import: async (file) => ({ file, signInRequired: [] }),
    doctor: async () => {
      if (connections.some(({ name }) => name === 'no-doctor'))
        throw new AccountsError('io', 'the configuration cannot be read', 'check its permissions');
      return [
        { check: 'Keychain', state: 'ok', what: 'The Secret Service answers and is unlocked.' },
        {
          check: 'Clock',
          state: 'warn',
          what: 'This machine is 94 s behind cloud.example.com.',
          hint: 'Let it be set by the network; tokens seem expired before they are.',
        },
        {
          check: 'sales',
          state: 'fail',
          what: 'cloud.example.com answers 401: the API key is no longer accepted.',
          hint: 'Enter a new one under Connections.',
        },
      ];
    },
    async claimNotice(name) {
      if (claimed.has(name)) return false;
      claimed.add(name);
      return true;
    },
  };

  function assistant(id: string, title: string, file: string) {
    const names = starts.get(id) ?? [];
    return { id, title, file: `/home/dana/${file}`, found: true, starts: names, backups: [] };
  }
}

/** Servers: one in use, one that also needs a sign-in, one that needs an account, one not in use, two to ask for (one declined), one withdrawn. */
function scriptedServers(signedInAs: string): ServerListView {
  const url = 'https://latchkey.example.com';
  const of = { organization: 'acme', organizationTitle: 'Acme', isGranted: true };
  const server = (name: string, title: string, description: string) => ({
    ...of,
    url: `${url}/mcp/acme/${name}`,
    name,
    title,
    description,
    uses: [],
    assistants: [],
  });
  const askable = (name: string, title: string) => ({
    organization: 'acme',
    name,
    title,
    description: '',
    askUrl: `${url}/dashboard/acme/my-servers?of=${name}`,
  });
  return {
    list: `${url}/api/my/servers`,
    url,
    signedInAs,
    servers: [
      {
        ...server('sales', 'Sales', 'Orders, quotes and customers'),
        connection: 'sales',
        assistants: ['Claude Desktop', 'Cursor'],
        uses: [{ assistant: 'Cursor', device: { name: 'danas-macbook', isCurrent: false } }],
      },
      {
        ...server('billing', 'Billing', ''),
        connection: 'billing',
        assistants: ['Cursor'],
        requires: 'sign_in',
      },
      {
        ...server('tickets', 'Tickets', ''),
        needs: 'key',
        accountUrl: `${url}/dashboard/acme/servers/tickets/account`,
      },
      server('wiki', 'Wiki', 'What the company knows'),
    ],
    askable: [
      askable('payroll', 'Payroll'),
      { ...askable('board', 'Board papers'), request: { status: 'declined', answer: 'Ask Eve' } },
    ],
    withdrawn: [
      {
        name: 'crm',
        url: `${url}/mcp/acme/crm`,
        removed: [{ assistant: 'cursor', title: 'Cursor', file: '', backup: '' }],
        problems: [],
      },
    ],
  };
}
