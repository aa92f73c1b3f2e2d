import { expect, test } from 'vitest';
import { pastedRedirect } from '#proxy/auth/authorization-request';

const redirectUri = 'http://127.0.0.1:4711/callback';
const isOurs = (query: URLSearchParams) => query.get('state') === 'right';

async function* typed(...lines: string[]) {
  yield* lines;
}

test('pasted redirect: the first line that is our redirect is used, and earlier lines get a message', async () => {
  const complaints: string[] = [];
  const lines = typed(
    '',
    'code',
    'https://evil.example/callback?state=right',
    `${redirectUri}?state=wrong&code=c`,
    ` ${redirectUri}?state=right&code=c \r`,
    `${redirectUri}?state=right&code=d`,
  );

  const query = await pastedRedirect(lines, redirectUri, isOurs, (line) => complaints.push(line));

  expect(query.get('code')).toBe('c');
  expect(complaints).toHaveLength(3);
});

test('pasted redirect: input that ends without a redirect is an error', async () => {
  await expect(pastedRedirect(typed(), redirectUri, isOurs, () => {})).rejects.toMatchObject({
    code: 'pasted',
  });
});
