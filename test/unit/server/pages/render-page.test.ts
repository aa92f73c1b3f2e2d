import { expect, test } from 'vitest';

import { errorPage } from '#server/pages/error-page';
import { settled, shownName } from '#server/pages/plain-text';
import { renderPage } from '#server/pages/render-page';

const frame = { requestId: 'r1', scripts: [], csrfToken: 'guard', email: undefined };

test('what a person wrote is escaped wherever it is shown', () => {
  const evil = `<img src=x onerror=alert(1)>"'`;
  const data = { heading: evil, text: evil, next: { text: evil, href: `/"${evil}` } };

  const html = renderPage(errorPage, data, { ...frame, email: evil });

  expect(html).not.toContain('<img');
  expect(html).not.toContain(`/""`);
  expect(html).toContain('&lt;img src=x');
});

test('no character can turn the text of a page around', () => {
  const text = 'safe\u202Egpj.exe\u2066\u0000';

  const html = renderPage(errorPage, { heading: text, text, next: undefined }, frame);

  expect(html).not.toMatch(/[\u202e\u2066\0]/);
  expect(settled(text)).toBe('safe\ufffdgpj.exe\ufffd\ufffd');
});

test('a long name is cut between characters, not within one', () => {
  expect(shownName('🔑'.repeat(100), 3)).toBe('🔑🔑🔑…');
  expect(shownName('a\n b')).toBe('a b');
});

test('every page has its title, its request id and our stylesheet', () => {
  const html = renderPage(errorPage, { heading: 'Not here', text: 't', next: undefined }, frame);

  expect(html).toContain('<title>Not here · Latchkey</title>');
  expect(html).toContain('<code>r1</code>');
  expect(html).toMatch(/href="\/assets\/latchkey\.[0-9a-f]{16}\.css"/);
});

test('data of a page that would be hidden by what surrounds every page is a mistake', () => {
  const page = { title: () => 'Settings', width: 'text', template: '<%= it.title %>' } as const;

  expect(() => renderPage(page, { title: 'Acme' }, frame)).toThrow('may not be called title');
});
