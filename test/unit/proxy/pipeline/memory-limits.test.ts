import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const run = promisify(execFile);

const sourceOf = (path: string) =>
  JSON.stringify(new URL(`../../../../proxy/${path}`, import.meta.url).href);

/** Mebibytes of V8's young generation after 20,000 messages that outlive several collections. `limit` is called for each message. */
async function youngGenerationAfterLoad(limit: string): Promise<number> {
  const script = `
    import { getHeapSpaceStatistics } from 'node:v8';
    import { youngGenerationLimit } from ${sourceOf('pipeline/memory-limits.ts')};
    import { ServedServers } from ${sourceOf('agent/run-agent.ts')};
    const limit = ${limit};
    const open = [];
    for (let message = 0; message < 20_000; message += 1) {
      limit();
      open.push(Array.from({ length: 200 }, (_, at) => ({ at, text: [at] })));
      if (open.length > 64) open.shift();
    }
    const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
    console.log(space.space_size / 2 ** 20);
  `;
  const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', script]);
  expect(stderr).toBe('');
  return Number(stdout);
}

test('young generation: it stays small under load, in which V8 would let it grow', async () => {
  const limited = await youngGenerationAfterLoad('youngGenerationLimit()');
  const unlimited = await youngGenerationAfterLoad('() => {}');

  expect(limited).toBeLessThanOrEqual(32);
  expect(unlimited).toBeGreaterThan(limited);
});

test('young generation: an agent keeps it small as well', async () => {
  const agent = `(() => {
    const answer = { status: 202, headers: {}, body: new Uint8Array() };
    const server = { send: async () => answer };
    const agent = new ServedServers(new Map([['files', { kind: 'http' }]]), { open: () => server });
    agent.bind(['files']);
    const request = { server: 'files', method: 'POST', signal: AbortSignal.abort() };
    return () => void agent.respond(request);
  })()`;

  expect(await youngGenerationAfterLoad(agent)).toBeLessThanOrEqual(32);
});
