import { expect, test } from 'vitest';

import { agentFacts, offerWords, presenceWords } from '#server/dashboard/agent-facts';
import { changesWithAgents } from '#server/dashboard/changes-with-agents';
import { absent } from '#server/tunnel/agent-presence';

const here = {
  ...absent,
  isOnline: true,
  tunnels: 1,
  versions: ['0.1.0'],
  servers: [
    { name: 'hr', kind: 'http' },
    { name: 'sales', kind: 'stdio' },
  ],
};

test('an agent is online by its connections', () => {
  expect([absent, here, { ...here, tunnels: 3 }].map(presenceWords)).toEqual([
    'Offline',
    'Online',
    'Online, by 3 connections',
  ]);
});

test('its facts say what is under way, what it could serve besides and what went wrong', () => {
  const presence = {
    ...here,
    callsUnderWay: 2,
    waiting: 1,
    listening: 3,
    calls: 10,
    failed: 1,
    trouble: { at: 1_700_000_000, words: 'unreachable: port 3000' },
  };
  const facts = agentFacts(presence, ['sales']).map(({ label, text }) => `${label}: ${text}`);

  expect(facts).toEqual([
    'Status: Online',
    'Version: 0.1.0',
    'Calls under way: 2, 1 waiting, 3 streams listen',
    'Could also serve: hr',
    'Calls since this server started: 10, 1 failed',
    'Last error: unreachable: port 3000',
    'Last error at: undefined',
  ]);
});

test('a bound server that the agent does not know is told apart from one that it serves', () => {
  expect(offerWords(here, 'sales')).toBe('served, stdio');
  expect(offerWords(here, 'stock')).toBe('not in the configuration of the agent');
  expect(offerWords(absent, 'sales')).toBe('the agent is offline');
});

test('pages of an organization change with its agents, and pages of one server do not', async () => {
  let revision = 1;
  const store = { written: () => 'w', stateOf: async () => 's' };
  const changes = changesWithAgents(store, { revision: () => revision });
  const look = async () => [
    changes.written(),
    await changes.stateOf('acme', undefined),
    await changes.stateOf('acme', 'sales'),
  ];
  const before = await look();
  revision = 2;
  const after = await look();

  expect(before.map((text, index) => text === after[index])).toEqual([false, false, true]);
});
