import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageApp, type PageApp } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

test('an unknown address is a page for browsers and JSON for programs', async () => {
  const path = '/no-such-page?<script>';
  const asked = (accept: string) => app.api({ method: 'GET', path, headers: { accept } });

  const browser = await asked('text/html,application/xhtml+xml;q=0.9,*/*;q=0.8');
  const program = await asked('*/*');

  expect([browser.status, program.status]).toEqual([404, 404]);
  expect(browser.headers['content-type']).toBe('text/html; charset=utf-8');
  expect(browser.headers['content-security-policy']).toContain("default-src 'none'");
  expect(browser.text).toContain('<h1>Page not found</h1>');
  expect(browser.text).not.toContain('<script>');
  expect([browser.headers['vary'], program.headers['vary']]).toEqual(['Accept', 'Accept']);
  expect(JSON.parse(program.text)).toMatchObject({ error: 'not_found' });
});

test('a POST to an unknown address is answered in JSON, whoever sends it', async () => {
  const headers = { accept: 'text/html' };
  const { status, text } = await app.api({ method: 'POST', path: '/no-such-page', headers });

  expect(status).toBe(404);
  expect(JSON.parse(text)).toMatchObject({ error: 'not_found' });
});
