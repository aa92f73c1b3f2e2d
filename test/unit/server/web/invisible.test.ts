import { expect, test } from 'vitest';

import { revealed } from '#server/web/invisible';

const shown = (text: string) =>
  revealed(text)
    .toString()
    .replaceAll(/<mark class="revealed">(.*?)<\/mark>/g, '[$1]');

test.each([
  ['a zero-width space', 'read\u200bfile', 'read[U+200B]file'],
  ['a run of the same character', 'a\u200b\u200b\u200bb', 'a[U+200B ×3]b'],
  ['different characters in a row', 'a\u200b\u2060b', 'a[U+200B][U+2060]b'],
  ['a character that reverses the text after it', 'a\u202eb', 'a[U+202E]b'],
  ['tag characters', 'ok\u{e0068}\u{e0069}', 'ok[tags “hi”]'],
  ['a no-break space', 'a\u00a0b', 'a[U+00A0]b'],
  ['a filler of Hangul', 'a\u3164b', 'a[U+3164]b'],
  ['a control character', 'a\u0007b', 'a[U+0007]b'],
  ['a lone surrogate', 'a\ud800b', 'a[U+D800]b'],
  ['a supplementary character of private use', 'a\u{f0000}\u{f0000}b', 'a[U+F0000 ×2]b'],
])('revealed: %s is replaced by its code', (_, text, expected) => {
  expect(shown(text)).toBe(expected);
});

test('revealed: emoji, other scripts, tabs and line breaks stay as they are', () => {
  const text = '👩‍💻 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 עברית 日本語 e\u0301\n\t';

  expect(shown(text)).toBe(text);
});

test('revealed: text is escaped, also within tags', () => {
  const tags = Array.from('<b>', (one) =>
    String.fromCodePoint(0xe0000 + (one.codePointAt(0) ?? 0)),
  ).join('');

  expect(shown(`<i>${tags}`)).toBe('&lt;i&gt;[tags “&lt;b&gt;”]');
});
