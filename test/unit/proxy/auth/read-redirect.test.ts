import { expect, test } from 'vitest';
import { readRedirect } from '#proxy/auth/authorization-request';

const issuer = 'https://as.example.com';
const iss = encodeURIComponent(issuer);
const read = (query: string, sendsIssuer = true) =>
  readRedirect(new URLSearchParams(query), 'right', { issuer, sendsIssuer });

test('authorization response: the code is taken from a redirect with our state and issuer', () => {
  expect(read(`code=c&state=right&iss=${iss}`)).toBe('c');
  expect(read('code=c&state=right', false)).toBe('c');
});

test.each([
  ['another state', `code=c&state=wrong&iss=${iss}`],
  ['no state', `code=c&iss=${iss}`],
  ['two states', `code=c&state=right&state=right&iss=${iss}`],
  ['two codes', `code=c&code=d&state=right&iss=${iss}`],
  ['no issuer where it was announced', 'code=c&state=right'],
  ['another issuer', 'code=c&state=right&iss=https%3A%2F%2Fevil.example'],
  ['the issuer with a slash', `code=c&state=right&iss=${iss}%2F`],
  ['the issuer in capitals', 'code=c&state=right&iss=https%3A%2F%2FAS.example.com'],
  ['no code', `state=right&iss=${iss}`],
])('authorization response: %s is refused', (_, query) => {
  expect(() => read(query)).toThrow(expect.objectContaining({ code: 'redirect' }));
});

test('authorization response: an issuer must match even if the server did not announce it', () => {
  expect(() => read('code=c&state=right&iss=https%3A%2F%2Fevil.example', false)).toThrow(/evil/);
});

test('authorization response: an error is reported only if it carries our state', () => {
  const error = 'error=access_denied&error_description=%1b%5b31mno';

  expect(() => read(`${error}&state=wrong&iss=${iss}`)).toThrow(/state/);
  expect(() => read(`${error}&state=right&iss=${iss}`)).toThrow(
    expect.objectContaining({
      code: 'denied',
      message: expect.stringMatching(/answered: {2}\[31mno$/),
    }),
  );
});

test.each([
  ['the person denied access', 'declined', 'you chose Deny', {}],
  [
    'this server does not exist, or you have no access to it',
    'no_access',
    `${issuer}/mcp/acme/sales does not exist, or you have no access to it`,
    { remedy: `check the URL, or ask for access: ${issuer}/dashboard/acme/my-servers` },
  ],
  [
    'this person can use none of these servers',
    'no_access',
    `you have no access to any server of ${issuer}`,
    {},
  ],
])(
  'authorization response: the reason “%s” of a Latchkey server is %s',
  (reason, code, message, remedy) => {
    const error_description = reason;
    const query = new URLSearchParams({
      error: 'access_denied',
      error_description,
      state: 'right',
    });
    const issuers = { issuer, sendsIssuer: false };
    const reading = () => readRedirect(query, 'right', issuers, `${issuer}/mcp/acme/sales`);

    expect(reading).toThrow(expect.objectContaining({ code, message }));
    expect(reading).toThrow(
      expect.objectContaining({ details: { endpoint: issuer, error: 'access_denied', ...remedy } }),
    );
  },
);
