import { expect, test } from 'vitest';
import { readPasted, suggestedName } from '#proxy/connections/new-connection';
import { pastedEntry } from '#proxy/config/pasted-entry';

const clientSecret = `secret_${'s'.repeat(36)}`;
const oauth = { clientId: 'client_1', clientSecret, scopes: ['mcp:tools:read'] };
const url = 'https://cloud.example.com/mcp/acme/sales';

test('pasted configuration: an oauth object is recognized alone, as a member, in an entry and in a file', () => {
  const texts = [
    JSON.stringify(oauth),
    JSON.stringify({ oauth }),
    `"oauth": ${JSON.stringify(oauth)},`,
    JSON.stringify({ url, oauth }),
    `"sales": ${JSON.stringify({ url, oauth })}`,
    `{ // mine\n"mcpServers": ${JSON.stringify({ sales: { url, oauth } })}, }`,
  ];

  expect(texts.map((text) => pastedEntry(text).oauth)).toEqual(texts.map(() => oauth));
  expect(readPasted(texts[5] ?? '')).toEqual({
    name: 'sales',
    url,
    as: 'client',
    clientId: 'client_1',
    scopes: ['mcp:tools:read'],
  });
});

test('pasted configuration: errors never repeat the pasted text', () => {
  const told = texts().map((text) => {
    try {
      return JSON.stringify(readPasted(text));
    } catch (error) {
      return String(error);
    }
  });

  expect(told.join()).not.toContain(clientSecret);
  expect(told.slice(-2).join()).toContain('contains no connection');

  function texts(): string[] {
    return [
      JSON.stringify({ oauth: { ...oauth, scopes: 7 } }),
      JSON.stringify({ url, apiKey: clientSecret }),
      JSON.stringify({ clientId: 'x', clientSecret, grant: 'magic' }),
      `{"clientSecret": "${clientSecret}`,
      clientSecret,
    ];
  }
});

test('suggested name: a connection is named after its server, with a number if the name is taken', () => {
  expect(suggestedName(url, [])).toBe('sales');
  expect(suggestedName(url, ['sales', 'sales-2'])).toBe('sales-3');
  expect(suggestedName('https://tools.example.com/mcp', [])).toBe('tools');
  expect(suggestedName('https://127.0.0.1:8/', [])).toBe('127');
});
