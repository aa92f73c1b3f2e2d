import { expect, test } from 'vitest';

import { whereCallsEnd } from '#server/dashboard/where-calls-end';

const away = { outcome: 'error', message: 'It cannot be reached.', code: -32_000 } as const;
const visit = { organization: 'acme', may: () => true };
const http = { name: 'crm', upstream: { kind: 'http', url: 'https://mcp.example/mcp' } } as const;
const served = { name: 'crm', upstream: { kind: 'agent', agent: 'head-office' } } as const;

test('whoever looks after a server that does not answer learns where its calls go, and what is in the way', () => {
  const next = whereCallsEnd(away, http, visit);

  expect(next?.text).toMatch(
    /https:\/\/mcp\.example\/mcp.*public internet.*--outbound-host.*agent/,
  );
  expect(next?.link.href).toBe('/dashboard/acme/servers/crm/settings');
});

test('for a server that an agent serves, the page of the agent says more', () => {
  const next = whereCallsEnd(away, served, visit);

  expect(next?.text).toMatch(/head-office.*online.*crm/);
  expect(next?.link.href).toBe('/dashboard/acme/agents/head-office');
});

test('nobody is told who could not change it, and nothing of errors that have another cause', () => {
  const member = whereCallsEnd(away, http, { ...visit, may: () => false });
  const unknownTool = whereCallsEnd({ ...away, code: -32_602 }, http, visit);
  const demo = whereCallsEnd(away, { name: 'crm', upstream: { kind: 'demo' } }, visit);

  expect([member, unknownTool, demo]).toEqual([undefined, undefined, undefined]);
});
