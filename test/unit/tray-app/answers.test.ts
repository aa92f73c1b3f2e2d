import { expect, test } from 'vitest';
import { AccountsError, type Renamed } from '#proxy/connections/accounts-service';
import { answer, answers, type Answers } from '#tray/model/answers';
import type { MenuFailure } from '#tray/model/contract';
import { menuActions } from '#tray/model/menu';

const bug = new TypeError('undefined is not a function');
const unreadable = new AccountsError('io', 'the file cannot be read', '');
const request = { operation: 'signOut', input: { name: 'sales' } };

/** Answers that all fail with the error. */
const failing = (error: Error): Answers =>
  new Proxy(Object.create(null), {
    get: () => async () => {
      throw error;
    },
  });

function recorder() {
  const reported: unknown[] = [];
  return { reported, report: (error: unknown) => void reported.push(error) };
}

test('request of a page: an unexpected error becomes a failed outcome, and is reported', async () => {
  const { reported, report } = recorder();

  const outcome = await answer(request, failing(bug), report);

  expect(outcome).toEqual({
    ok: false,
    problem: 'An unexpected error occurred (TypeError).',
    remedy: expect.stringContaining('Try again'),
  });
  expect(reported).toEqual([bug]);
});

test('request of a page: an operation that answers with a list can fail, too', async () => {
  const { reported, report } = recorder();

  const outcome = await answer({ operation: 'doctor', input: {} }, failing(unreadable), report);

  expect(outcome).toEqual({ ok: false, problem: 'The file cannot be read.', remedy: '' });
  expect(reported).toEqual([]);
});

test('request of a page: one outside the contract rejects, and is not reported', async () => {
  const { reported, report } = recorder();
  const input = { name: '../sales' };

  await expect(answer({ operation: 'signOut', input }, failing(bug), report)).rejects.toThrow(
    'invalid',
  );
  expect(reported).toEqual([]);
});

test('menu: an action that fails unexpectedly is reported, and opens the window Connections', async () => {
  const { reported, report } = recorder();
  const opened = Promise.withResolvers<string>();
  const act = menuActions({
    answers: failing(bug),
    openWindow: opened.resolve,
    startAtLogin: () => undefined,
    quit: () => undefined,
    failed: () => undefined,
    report,
  });

  act({ do: 'signOut', name: 'sales' });

  expect(await opened.promise).toBe('connections');
  expect(reported).toEqual([bug]);
});

test.each([
  ['signOut', { do: 'signOut', name: 'sales' }, 'sales', 'The file cannot be read.'],
  ['reconnect', { do: 'reconnect', name: 'sales' }, 'sales', 'The file cannot be read.'],
  ['startAtLogin', { do: 'startAtLogin', on: true }, '', 'Start at login could not be changed.'],
] as const)(
  'menu: the reason why %s failed is kept for the window, until the next action',
  async (_, action, name, problem) => {
    const opened = Promise.withResolvers<string>();
    const failures: (MenuFailure | undefined)[] = [];
    const act = menuActions({
      answers: failing(unreadable),
      openWindow: opened.resolve,
      startAtLogin() {
        throw new Error('EACCES: permission denied');
      },
      quit: () => undefined,
      failed: (failure) => failures.push(failure),
      report: () => undefined,
    });

    act(action);
    await opened.promise;
    act({ do: 'open', window: 'doctor' });

    expect(failures).toMatchObject([undefined, { name, problem, count: 1 }, undefined]);
  },
);

/** The answers over an accounts service that has only the operation `rename`, which may fail. */
function renaming(assistants: Renamed['assistants'], failure?: AccountsError) {
  const renamed: string[][] = [];
  const forgotten: string[] = [];
  const unused = () => {
    throw bug;
  };
  const all = answers({
    accounts: Object.assign(Object.create(null), {
      async rename(...names: string[]) {
        renamed.push(names);
        if (failure) throw failure;
        return { url: 'https://acme.example/mcp', assistants };
      },
    }),
    signIns: Object.assign(Object.create(null), {
      forget: (name: string) => void forgotten.push(name),
    }),
    overview: unused,
    openWindow: unused,
    openBrowser: unused,
    openFile: unused,
    copySecret: unused,
  });
  return { all, renamed, forgotten };
}

const cursor = { assistant: 'cursor', title: 'Cursor', file: '/home/dana/.cursor/mcp.json' };

test('rename: says which assistants to restart, and forgets the sign-in under the old name', async () => {
  const { all, renamed, forgotten } = renaming([cursor]);
  const { report } = recorder();

  const outcome = await answer(
    { operation: 'rename', input: { name: 'sales', to: 'sales-eu' } },
    all,
    report,
  );

  expect(outcome).toEqual({ ok: true, message: 'sales is now sales-eu. Restart Cursor.' });
  expect(renamed).toEqual([['sales', 'sales-eu']]);
  expect(forgotten).toEqual(['sales']);
});

test('rename: the new name keeps its case at the start of a problem', async () => {
  const { all } = renaming([], new AccountsError('usage', 'crm already exists', ''));
  const input = { name: 'sales', to: 'crm' };

  const outcome = await answer({ operation: 'rename', input }, all, recorder().report);

  expect(outcome).toMatchObject({ problem: 'crm already exists.' });
});

test('rename: an assistant whose file stays as it is, is a failure that can be repeated', async () => {
  const { all } = renaming([{ ...cursor, problem: 'is not valid JSON' }]);
  const { report } = recorder();

  const outcome = await answer(
    { operation: 'rename', input: { name: 'sales', to: 'sales-eu' } },
    all,
    report,
  );

  expect(outcome).toEqual({
    ok: false,
    problem: 'sales is now sales-eu, but Cursor still starts sales: is not valid JSON',
    remedy: 'Fix the problem, then rename it again.',
  });
});

/** The answer that a page gets when this operation of the accounts service has this result. */
async function told(
  operation: 'signIn' | 'signOut' | 'setUp' | 'signInCompany' | 'signOutCompany',
  result: object,
) {
  const unused = () => {
    throw bug;
  };
  const all = answers({
    accounts: Object.assign(Object.create(null), {
      signIn: async () => result,
      signOut: async () => result,
      setUp: async () => result,
      signInCompany: async () => result,
      signOutCompany: async () => result,
    }),
    signIns: Object.assign(Object.create(null), {
      begin: async (_: string, work: (progress: object) => Promise<unknown>) =>
        work({ signal: new AbortController().signal, waiting: unused }),
      forget: () => undefined,
    }),
    overview: unused,
    openWindow: unused,
    openBrowser: unused,
    openFile: unused,
    copySecret: unused,
  });
  const input = operation === 'setUp' ? { url, choose: false } : { name: 'sales' };
  return answer({ operation, input }, all, recorder().report);
}

const sales = { name: 'lkey', isNew: false, server: { title: 'Sales' } };
const url = 'https://latchkey.example.com';
const signInInstead = 'To sign in instead, remove lkey, then set up again.';

test.each([
  [
    'goes on using a key',
    { ...sales, keptKey: 'in_use' },
    `Connected: Sales. lkey goes on using its API key. ${signInInstead} Restart Cursor.`,
  ],
  [
    'has a key that the server rejects',
    { ...sales, keptKey: 'rejected', problem: 'the server rejected its key' },
    `No server was connected. Sales: the server rejected its key. To keep using a key, rotate the key of lkey. ${signInInstead} Restart Cursor.`,
  ],
  [
    'has a key that is gone',
    { ...sales, keptKey: 'missing', problem: 'its key is gone' },
    `No server was connected. Sales: its key is gone. To keep using a key, enter the key of lkey. ${signInInstead} Restart Cursor.`,
  ],
])(
  'set-up: of a connection that %s, the page says how to sign in instead',
  async (_, one, words) => {
    const result = { url, servers: [one], restart: ['Cursor'], problems: [] };

    const message = `You are signed in at latchkey.example.com. ${words}`;
    expect(await told('setUp', result)).toEqual({ ok: true, message });
  },
);

test.each([
  [
    'names the connections that a company sign-in covered',
    { issuer: 'x', signedInAs: 'dana@acme.example', also: ['support', 'finance'] },
    'You are signed in to sales as dana@acme.example. That also signed you in to support and finance.',
  ],
  [
    'says why a company sign-in was not used',
    { issuer: 'x', signedInAs: 'dana', note: 'sales cannot use the company sign-in of y: no' },
    'You are signed in to sales as dana. sales cannot use the company sign-in of y: no.',
  ],
])('sign-in: the page %s', async (_, result, message) => {
  expect(await told('signIn', result)).toEqual({ ok: true, message });
});

test('sign-out: the page says that a company sign-in ended for all servers', async () => {
  expect(await told('signOut', { wasSignedIn: true, provider: 'https://id.acme.example' })).toEqual(
    {
      ok: true,
      message:
        'Signed out of sales. The access was revoked at the server. The company sign-in of https://id.acme.example ended, too, for all servers.',
    },
  );
});

const issuer = 'https://id.acme.example/tenant';

test.each<[string, object, string]>([
  [
    'names the connections that it covers',
    {
      signedInAs: 'dana@acme.example',
      connections: ['sales', 'support'],
      unsupported: [],
      refused: [],
    },
    'You are signed in at id.acme.example as dana@acme.example, and to sales and support.',
  ],
  [
    'says what it does not cover, and why',
    {
      connections: ['sales'],
      unsupported: ['wiki'],
      refused: [{ name: 'hr', problem: 'access_denied' }],
    },
    'You are signed in at id.acme.example, and to sales. wiki does not accept it: sign in to wiki itself. You have no access to hr: access_denied.',
  ],
])('sign-in at a company: the page %s', async (_, result, message) => {
  expect(await told('signInCompany', { issuer, ...result })).toEqual({ ok: true, message });
});

test.each<[string, object, string]>([
  [
    'names the connections that it ended',
    { connections: ['sales', 'support'], notRevoked: [] },
    'Signed out at id.acme.example, and of sales and support.',
  ],
  [
    'names the servers that revoked nothing',
    { connections: ['sales'], notRevoked: ['sales'] },
    'Signed out at id.acme.example, and of sales. These servers did not revoke the access: sales. It ends when it expires.',
  ],
])('sign-out at a company: the page %s', async (_, result, message) => {
  expect(await told('signOutCompany', { issuer, ...result })).toEqual({ ok: true, message });
});

test('servers: the page learns which connection requires a sign-in or a key', async () => {
  const server = {
    url: `${url}/mcp/acme/sales`,
    title: 'Sales',
    description: '',
    uses: [],
    isGranted: true,
  };
  const named = { organization: 'acme', organizationTitle: '', name: 'sales' };
  const used = { ...server, ...named, connection: 'sales', assistants: ['Cursor'] };
  const servers = [used, { ...used, requires: 'sign_in' }, { ...used, requires: 'key' }];
  const list = { list: url, url, servers, askable: [], withdrawn: [] };
  const accounts = Object.assign(Object.create(null), { myServers: async () => [list] });
  const ports = Object.assign(Object.create(null), { accounts });

  const views = await answer({ operation: 'servers', input: {} }, answers(ports), () => undefined);

  expect(views).toMatchObject([
    {
      servers: [
        expect.not.objectContaining({ lacks: expect.anything() }),
        { state: 'in_use', lacks: { what: 'sign_in', connection: 'sales' } },
        { state: 'in_use', lacks: { what: 'key', connection: 'sales' } },
      ],
    },
  ]);
});
