import { expect, test } from 'vitest';
import { stepsOf, Terminals } from '#support/documented-commands';
import { temporaryFolder } from '#support/temporary-folder';

const fence = '```';
const block = (marker: string, text: string, language = 'sh') =>
  `<!-- ${marker} -->\n${fence}${language}\n${text}\n${fence}\n`;

async function follow(
  document: string,
  {
    hasKeychain = false,
    byHand = {},
    timeoutMs = 5000,
  }: {
    timeoutMs?: number;
    hasKeychain?: boolean;
    byHand?: Record<string, (printed: string) => Promise<void>>;
  } = {},
) {
  await using folder = await temporaryFolder('document');
  await using terminals = new Terminals({
    folder: folder.path,
    stateFolder: `${folder.path}/.terminal`,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder.path },
    hasKeychain,
    instead: { 8787: '1234' },
    byHand,
    timeoutMs,
  });
  await terminals.follow('page.md', stepsOf(document));
  return { printed: terminals.printed, count: terminals.count };
}

test('documented commands: a correct page passes (one terminal, a background program, a person, a typed secret)', async () => {
  const secret = `mcp_${'a'.repeat(36)}`;
  const page = [
    block('test: install', 'mkdir here\ncd here\nexport GREETING=hello'),
    block(
      'test: start, background',
      'echo "made key"; echo listening on 8787; exec tail -f /dev/null',
    ),
    block('output', 'made …\nlistening on 8787', 'text'),
    '<!-- by hand: write a file -->',
    block('test', `# what a person wrote\nbasename "$PWD"; echo $GREETING; echo ${secret}`),
    block('output', '…\nhello\nmcp_…', 'text'),
    block('test: types mcp_', 'read key; echo "got $key"'),
    block('output', `got ${secret}`, 'text'),
    block('test: without keychain', 'echo none'),
    block('test: with keychain', 'exit 1'),
    block('not tested: it needs the network', 'exit 1'),
  ].join('\n');
  const acts: string[] = [];

  const { printed, count } = await follow(page, {
    byHand: { 'write a file': async (seen) => void acts.push(seen) },
  });

  expect(acts).toEqual(['made key\nlistening on 1234\n']);
  expect(printed).toContain('here\nhello\n');
  expect(printed).toMatch(/none\n$/);
  expect(count).toBe(7);
});

test.for([
  ['a command that fails', block('test', 'echo one\nfalse\necho two'), 'page.md:2: exit code 1'],
  ['a command that is not there', block('test', 'no-such-program'), 'page.md:2: exit code 127'],
  [
    'another output',
    block('test', 'echo two') + block('output', 'one', 'text'),
    'page.md:2: prints something else',
  ],
  [
    'more output than is written',
    block('test', 'echo one; echo two') + block('output', 'one', 'text'),
    'page.md:2: prints something else',
  ],
  [
    'a background program that ends',
    block('test: background', 'echo one') + block('output', 'two', 'text'),
    'page.md:2: ended',
  ],
  [
    'a background program that prints something else',
    block('test: background', 'echo one; exec tail -f /dev/null') + block('output', 'two', 'text'),
    'page.md:2: does not print this',
  ],
  [
    'a command without end',
    block('test', 'tail -f /dev/null'),
    'page.md:2: still runs after 500 ms',
  ],
  [
    'a person who does not know how',
    '<!-- by hand: dance -->',
    "page.md:1: nobody knows how to 'dance'",
  ],
] as const)('documented commands: a wrong page fails: %s', async ([, page, message]) => {
  const isSlow = page.includes('tail -f');
  await expect(follow(page, isSlow ? { timeoutMs: 500 } : {})).rejects.toThrow(message);
});

test.for([
  ['commands without a comment', `${fence}sh\nls\n${fence}`, 'line 1: commands without a comment'],
  ['no reason not to test', block('not tested', 'ls'), 'line 2: commands without a comment'],
  ['a word that means nothing', block('test: a, backgruond', 'ls'), "line 2: 'backgruond'"],
  ['a comment that means nothing', block('ouput', 'one', 'text'), "line 1: 'ouput'"],
  ['a comment away from its block', '<!-- output -->\n\ntext', "line 1: 'output'"],
  ['an output of nothing', block('output', 'one', 'text'), 'line 2: an output without'],
] as const)('documented commands: a page that cannot be parsed fails: %s', ([, page, message]) => {
  expect(() => stepsOf(page)).toThrow(message);
});
