import { expect, test } from 'vitest';
import { isSlug, slugOf } from '#server/model/slug';

test.each([
  ['acme', 'acme'],
  ['Acme GmbH', 'acme-gmbh'],
  ['  Müller & Söhne (Straße 7) ', 'muller-sohne-strasse-7'],
  ['--a--', 'a'],
  ['ab '.repeat(40), 'ab-'.repeat(21).slice(0, -1)],
])('slug: %j becomes %s', (name, slug) => {
  expect(slugOf(name)).toBe(slug);
  expect(isSlug(slug)).toBe(true);
});

test('slug: a name in another script has none', () => {
  expect(slugOf('株式会社')).toBe('');
});
