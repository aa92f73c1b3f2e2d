import { afterAll, expect, test } from 'vitest';

import { scanMessage } from '#mcp/message';
import type { Upstream } from '#server/gateway/upstream';
import { lists, listWithSkills } from '#server/upstreams/skills/lists';
import { SkillFolder } from '#server/upstreams/skills/skill-folder';
import { fakeUpstream } from '#support/fake-upstream';
import { rpc } from '#support/mcp-call';
import { skillText, writeFiles } from '#support/skill-text';
import { temporaryFolder } from '#support/temporary-folder';

const names = Array.from({ length: 230 }, (_, at) => `many-${String(at).padStart(3, '0')}`);
const manifests = names.map((name) => `skill://${name}/SKILL.md`);
const temporary = await temporaryFolder();
await writeFiles(
  temporary.path,
  Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillText(name)])),
);
const ports = { onProblem: () => undefined, onError: () => undefined };
const folder = await SkillFolder.open(temporary.path, ports);
afterAll(async () => {
  await folder.close();
  await temporary[Symbol.asyncDispose]();
});

test.each([
  '{"jsonrpc":"2.0","id":1,"result":{"resources":[]},"result":{"resources":[]}}',
  '{"jsonrpc":"2.0","id":1,"result":{"resources":[]}} {}',
  '[{"jsonrpc":"2.0","id":1,"result":{"resources":[]}}]',
])('a list of the upstream that can be read in two ways is refused: %s', async (text) => {
  const upstream = fakeUpstream(() => ({ text }));
  const behindOurs = pages(upstream, 'resources/list');

  await expect(behindOurs).rejects.toMatchObject({ code: 'upstream_unreadable' });
});

type Method = 'resources/list' | 'skills/list';
interface Page {
  readonly uris: readonly string[];
  readonly nextCursor?: string;
}
const members = { 'resources/list': 'resources', 'skills/list': 'skills' } as const;

/** Asks for one page, as the gateway does. */
async function page(upstream: Upstream, method: Method, cursor?: string): Promise<Page> {
  const accept = 'application/json, text/event-stream';
  const headers = { accept, 'content-type': 'application/json' };
  const body = Buffer.from(rpc(method, { ...(cursor !== undefined && { cursor }), kept: 1.5 }));
  const scan = scanMessage(body);
  const kind = lists[method];
  if (scan.outcome !== 'message' || !kind) throw new Error('no list');
  const { envelope } = scan;
  const request = { method: 'POST', headers, body, signal: new AbortController().signal } as const;
  const answer = await listWithSkills(
    (sent) => upstream.send(sent),
    request,
    { envelope, kind },
    folder,
  );
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body instanceof Uint8Array ? [answer.body] : answer.body) {
    chunks.push(chunk);
  }
  const { result, error } = JSON.parse(Buffer.concat(chunks).toString());
  if (error) throw new Error(error.message);
  const entries: { uri: string }[] = result[members[method]];
  return { uris: entries.map(({ uri }) => uri), nextCursor: result.nextCursor };
}

/** Follows the cursors to the last page. */
async function pages(upstream: Upstream, method: Method): Promise<readonly Page[]> {
  const all = [await page(upstream, method)];
  for (let next = all[0]?.nextCursor; next !== undefined && all.length < 20;) {
    const got = await page(upstream, method, next);
    all.push(got);
    next = got.nextCursor;
  }
  return all;
}

/** An upstream with these pages, each under its cursor; `''` is the first page. */
const paged = (theirs: Readonly<Record<string, Page>>, member: string) =>
  fakeUpstream(({ text }) => {
    const { cursor = '' } = JSON.parse(text).params;
    const { uris, nextCursor } = theirs[cursor] ?? { uris: [`memo://wrong/${cursor}`] };
    const listed = uris.map((uri) => ({ uri, name: uri }));
    return {
      text: JSON.stringify({ jsonrpc: '2.0', id: 1, result: { [member]: listed, nextCursor } }),
    };
  });
const unknown = fakeUpstream(() => ({
  text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}',
}));

test.for(['resources/list', 'skills/list'] as const)(
  '%s goes through our pages and then the upstream’s, each entry once',
  async (method) => {
    const upstream = paged(
      {
        '': { uris: ['memo://a', manifests[150] ?? ''], nextCursor: '2' },
        '2': { uris: [manifests[7] ?? '', 'memo://b'], nextCursor: '3' },
        '3': { uris: ['memo://c'] },
      },
      members[method],
    );

    const all = await pages(upstream, method);

    expect(all.map(({ uris }) => uris.length)).toEqual([100, 100, 31, 1, 1]);
    expect(all.flatMap(({ uris }) => uris)).toEqual([
      ...manifests,
      'memo://a',
      'memo://b',
      'memo://c',
    ]);
    expect(upstream.sent).toHaveLength(3);
    expect(upstream.sent.every(({ text }) => text.includes('"kept":1.5'))).toBe(true);
  },
);

test('an upstream whose cursors look like ours, such as another gateway, keeps its own pages', async () => {
  const upstream = paged(
    {
      '': { uris: ['memo://a'], nextCursor: 'latchkey-skills:2' },
      'latchkey-skills:2': { uris: ['memo://b'], nextCursor: 'latchkey-upstream:3' },
      'latchkey-upstream:3': { uris: ['memo://c'] },
    },
    'resources',
  );

  const all = await pages(upstream, 'resources/list');

  expect(all.flatMap(({ uris }) => uris)).toEqual([
    ...manifests,
    'memo://a',
    'memo://b',
    'memo://c',
  ]);
});

test('an upstream without such a list leaves our pages unchanged', async () => {
  const all = await pages(unknown, 'resources/list');

  expect(all.map(({ uris }) => uris.length)).toEqual([100, 100, 30]);
  expect(all.flatMap(({ uris }) => uris)).toEqual(manifests);
});

test.for(['latchkey-skills:', 'latchkey-skills:bm90IG91cnM', 'latchkey-skills:%%'])(
  'the cursor %s was never issued',
  async (cursor) => {
    await expect(page(unknown, 'resources/list', cursor)).rejects.toMatchObject({
      code: 'bad_params',
    });
  },
);
