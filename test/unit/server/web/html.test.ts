import { describe, expect, test } from 'vitest';

import { displayName, html, neutralized, trustedHtml, type HtmlValue } from '#server/web/html';
import { errorPage } from '#server/web/messages';

const frame = { requestId: 'r1', scripts: [], csrfToken: 'guard', email: undefined };

describe('page', () => {
  test('text that a person wrote is escaped wherever it is shown', () => {
    const evil = `<img src=x onerror=alert(1)>"'`;
    const data = { heading: evil, text: evil, next: { text: evil, href: `/"${evil}` } };

    const page = errorPage(data, { ...frame, email: evil }).toString();

    expect(page).not.toContain('<img');
    expect(page).not.toContain(`/""`);
    expect(page).toContain('&lt;img src=x');
  });

  test('no character can reorder the text of a page', () => {
    const text = 'safe\u202Egpj.exe\u2066\u0000';

    const page = errorPage({ heading: text, text, next: undefined }, frame).toString();

    expect(page).not.toMatch(/[\u202e\u2066\0]/);
    expect(neutralized(text)).toBe('safe\ufffdgpj.exe\ufffd\ufffd');
  });

  test('every page has its title, its request id and our stylesheet', () => {
    const data = { heading: 'Not here', text: 't', next: undefined };

    const page = errorPage(data, frame).toString();

    expect(page).toContain('<title>Not here · Latchkey</title>');
    expect(page).toContain('<code>r1</code>');
    expect(page).toMatch(/href="\/assets\/latchkey\.[0-9a-f]{16}\.css"/);
  });
});

test('displayName: a long name is cut between characters, not within one', () => {
  expect(displayName('🔑'.repeat(100), 3)).toBe('🔑🔑🔑…');
  expect(displayName('a\n b')).toBe('a b');
});

describe('html', () => {
  test('text is escaped, in elements and in attributes', () => {
    const evil = `"><script>alert('&')</script>`;
    const safe = '&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;';

    expect(html`<p title="${evil}">${evil}</p>`.toString()).toBe(`<p title="${safe}">${safe}</p>`);
  });

  test('HTML in HTML is not escaped again, and markup of our own is not escaped at all', () => {
    const inner = html`<b>${'<'}</b>`;

    expect(html`<p>${inner}${trustedHtml('<svg></svg>')}</p>`.toString()).toBe(
      '<p><b>&lt;</b><svg></svg></p>',
    );
  });

  test.each<[string, HtmlValue]>([
    ['undefined', undefined],
    ['null', null],
    ['false', false],
    ['an empty list', []],
    ['a list of nothing', [undefined, false, [null]]],
  ])('%s renders nothing', (_name, value) => {
    expect(html`<p>${value}</p>`.toString()).toBe('<p></p>');
  });

  test('numbers are rendered, zero included, and lists are joined', () => {
    const items = [1, 'a & b', html`<b>c</b>`, [0]];

    expect(html`<p>${items}</p>`.toString()).toBe('<p>1a &amp; b<b>c</b>0</p>');
  });

  test.each<[string, unknown]>([
    ['true', true],
    ['an object', { toString: () => '<script>' }],
    ['a function', () => 'text'],
    ['a promise', Promise.resolve('text')],
    ['a list with an object', ['text', {}]],
  ])('%s is refused', (_name, value) => {
    // The types forbid it, but parsed JSON can hold it at run time.
    expect(() => Reflect.apply(html, undefined, [['<p>', '</p>'], value])).toThrow(TypeError);
  });
});
