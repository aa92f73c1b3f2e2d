/** Definitions exactly as the MCP reference servers write them: none changes on its way, and none is found suspicious. */
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { listDefinitions } from '#server/db/definitions';
import { DefinitionWatch } from '#server/tools/definition-watch';
import { pinnedDefinitions } from '#server/tools/pinning';
import { definitionWarnings, warningContext } from '#server/tools/warnings';
import { madeAt, makeServer } from '#support/made-records';
import { openDatabase } from '#support/open-database';
import { startProgram } from '#support/processes';
import { someTarget } from '#support/some-admission';
import { stillClock } from '#support/still-clock';
import { temporaryFolder } from '#support/temporary-folder';

const folder = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol');
const methods = ['initialize', 'tools/list', 'prompts/list', 'resources/templates/list'];
const params = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
};
const initialized = '{"jsonrpc":"2.0","method":"notifications/initialized"}';

/** The lines with which a server answers `methods`. */
async function answersOf(name: string, args: readonly string[]) {
  const script = join(folder, name, 'dist/index.js');
  await using program = startProgram(process.execPath, { args: [script, ...args] });
  const answers: { readonly method: string; readonly id: string; readonly line: string }[] = [];
  for (const [id, method] of methods.entries()) {
    const sent = { jsonrpc: '2.0', id, method, params: id === 0 ? params : {} };
    program.write(`${JSON.stringify(sent)}\n`);
    const [line] = await program.line(new RegExp(String.raw`^.*"id":${id}[,}].*$`, 'm'));
    if (id === 0) program.write(`${initialized}\n`);
    answers.push({ method, id: String(id), line });
  }
  return answers;
}

test.each([
  ['server-everything', ['stdio'], ['tool', 'prompt', 'template', 'instructions']],
  ['server-filesystem', [], ['tool']],
  ['server-memory', [], ['tool']],
] as const)(
  'definitions of %s: pass byte for byte, are pinned, and raise no warning',
  async (name, args, kinds) => {
    await using stores = await openDatabase();
    await using allowed = await temporaryFolder('reference-definitions');
    const { db } = stores;
    await makeServer(stores);
    const watch = new DefinitionWatch({ db, clock: stillClock(madeAt) });
    const pinned = pinnedDefinitions({ watch, failed: (error) => expect.fail(String(error)) });
    const target = someTarget({ id: 'target_sales' });
    const all = name === 'server-filesystem' ? [allowed.path] : args;
    for (const { method, id, line } of await answersOf(name, all)) {
      const answer = {
        status: 200,
        mediaType: 'application/json',
        sessionId: undefined,
        retryAfterSeconds: undefined,
        body: Buffer.from(line),
      };
      const taken = await pinned(answer, target, { method, id, isForCaller: false });
      const { body } = await pinned(taken, target, { method, id, isForCaller: true });

      expect(body).toEqual(Buffer.from(line));
    }
    const known = await listDefinitions(db, target.id);
    const own = known.flatMap((one) => (one.kind === 'tool' ? [one.name] : []));
    const context = warningContext(
      'sales',
      own.map((tool) => ({ server: 'sales', tool })),
    );
    const warnings = known.flatMap(({ kind, name: one, accepted }) =>
      definitionWarnings({ kind, name: one, text: accepted?.text ?? '' }, context),
    );

    expect([...new Set(known.map(({ kind }) => kind))]).toEqual(kinds);
    expect(warnings).toEqual([]);
  },
);
