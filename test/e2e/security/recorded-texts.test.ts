import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { openStores, type Stores } from '#server/app/stores';
import { type CallingPerson, callingPerson } from '#support/calling-person';
import { initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import { indexCalls } from '#support/made-calls';
import { patient } from '#support/patient';
import { rawHttp } from '#support/raw-http';
import { serverProcess, type ServerProcess } from '#support/server-process';
import {
  recordingUpstream,
  type RecordingUpstream,
  sendJson,
} from '#support/upstreams/recording-upstream';

const versions = { 'mcp-protocol-version': '2025-06-18' };
const made = z.object({ id: z.string(), key: z.string() });
const stack = new AsyncDisposableStack();
let upstream: RecordingUpstream;
let server: ServerProcess;
let stores: Stores;
let admin: CallingPerson;
let endpoint: string;

beforeAll(async () => {
  upstream = stack.use(await recordingUpstream());
  server = stack.use(await serverProcess());
  await server.command(['organization', 'create', 'acme']);
  await server.command(['server', 'create', 'acme/fixture', '--http-url', upstream.url]);
  endpoint = `${server.base}/mcp/acme/fixture`;
  admin = await callingPerson(server, 'dana@example.com', { organization: 'acme', role: 'owner' });
  stores = await openStores(server.dataDir);
  stack.defer(() => stores.close());
});
afterAll(() => stack.disposeAsync());

async function newKey(...words: string[]) {
  const command = ['key', 'create', 'acme/fixture', '--name', 'k', ...words, '--json'];
  return made.parse(JSON.parse(await server.command(command)));
}

/** The stored rows of a credential, oldest first, once there are as many. */
function rowsOf(keyId: string, count: number) {
  return vi.waitFor(async () => {
    const rows = await stores.db
      .selectFrom('call_record')
      .selectAll()
      .where('credential_id', '=', keyId)
      .orderBy('id')
      .execute();
    expect(rows).toHaveLength(count);
    return rows;
  }, patient);
}

/** Answers each call with a result, and lists, handshakes and `failing` with an error of these words. */
function answerWith(message: string) {
  upstream.answer = ({ body }, response) => {
    const text = body.toString();
    const id = /"id"\s*:\s*(\d+|"[^"]*")/.exec(text)?.[1];
    if (id === undefined) return void response.writeHead(202).end();
    const isInitialize = text.includes('"initialize"');
    const error = { code: -32_602, message, data: message };
    const result = isInitialize
      ? {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: message, version: message },
        }
      : { content: [{ type: 'text', text: message }] };
    const isFailing = text.includes('failing') || text.includes('server/discover');
    const outcome = isFailing ? { error } : { result };
    sendJson(response, `{"jsonrpc":"2.0","id":${id},${JSON.stringify(outcome).slice(1)}`);
  };
}

/** A modern call of an application with this name. */
function namedCall(key: string, tool: string, clientName: string) {
  const { body, headers } = modern('tools/call', { name: tool });
  const info = JSON.stringify({ name: clientName, version: clientName });
  const named = body.replace('"_meta":{', `"_meta":{"io.modelcontextprotocol/clientInfo":${info},`);
  const name = `=?base64?${Buffer.from(tool).toString('base64')}?=`;
  return mcpCall(endpoint, { key, body: named, headers: { ...headers, 'mcp-name': name } });
}

describe('118: recorded texts: nothing that a caller or server writes acts where it is read', () => {
  /** Clears the screen, names the window, turns a line around, and begins another. */
  const evil =
    '\u001b]0;owned\u0007\u001b[2J\u007f\u009b2J\u202ey\u2066\u2028\u2029\u200b\r\nforged: "line"';
  const acts = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
  /** What changes a page: also invisible characters, but for those that some scripts need. */
  const reorders = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;
  const formulas = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', ' =1', '＝1', '＠x'].map(
    (formula) => `${formula}${evil}`,
  );
  const count = formulas.length + 3;
  let keyId: string;

  beforeAll(async () => {
    answerWith(evil);
    const { id, key } = await newKey();
    keyId = id;
    for (const text of formulas) await namedCall(key, text, text);
    await namedCall(key, `failing${evil}`, evil);
    await mcpCall(endpoint, {
      key,
      body: rpc('resources/read', { uri: `file:///${evil}` }),
      headers: versions,
    });
    // Fetch sends no such header. `\x9b` begins a command of a terminal.
    const body = rpc('tools/call', { name: 'by_agent' });
    const raw = `POST /mcp/acme/fixture HTTP/1.1\r\nHost: ${new URL(server.base).host}\r\nX-API-Key: ${key}\r\nUser-Agent: =1\x9b2J\x85\xad\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`;
    await rawHttp(server.port, raw);
    await rowsOf(keyId, count);
    // Readers leave out the rows of the last seconds.
    await vi.waitFor(async () => {
      const { items } = Object(await (await admin.ask('/acme/calls')).json());
      if (items.length < count) throw new Error(`${items.length} of ${count} calls`);
    }, patient);
  });

  test('118: recorded texts: each column of a row has what was sent, and none what the server said', async () => {
    const rows = await rowsOf(keyId, count);

    expect(rows.slice(0, formulas.length).map(({ subject }) => subject)).toEqual(formulas);
    expect(rows.map(({ application }) => application).at(0)).toBe(`${formulas[0]} ${formulas[0]}`);
    expect(rows.at(-1)?.application).toBe('=1\u009b2J\u0085\u00ad');
    expect(rows.at(-3)).toMatchObject({ outcome: 'protocol_error', error: '-32602' });
  });

  test.each([
    ['list', []],
    ['list', ['--json']],
    ['export', []],
    ['export', ['--csv']],
  ])('118: recorded texts: call %s %j prints nothing that acts on a terminal', async (...words) => {
    const [command, options] = words;
    const text = await server.commandProcess(['call', command, 'acme', ...options]);
    const lines = text.split('\n');

    expect(lines.filter((line) => acts.test(line.replace(/\r$/, '')))).toEqual([]);
    expect(lines.filter((line) => line.startsWith('forged'))).toEqual([]);
    expect(text).toContain(String.raw`\u001b`);
  });

  test('118: recorded texts: no cell of a CSV export is a formula, and each call is one line', async () => {
    const text = await server.command(['call', 'export', 'acme', '--csv']);
    const [, ...lines] = text.trimEnd().split(/\r?\n/);
    const cells = lines.flatMap((line) =>
      [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, cell = '']) => cell),
    );

    expect(lines).toHaveLength(count);
    expect(cells.length % lines.length).toBe(0);
    expect(cells.filter((cell) => /^\s*[=+\-@＝＋－＠\t\r]/u.test(cell))).toEqual([]);
    expect(cells.filter((cell) => cell.startsWith("'=1"))).not.toEqual([]);
  });

  test('118: recorded texts: a line of a JSON export is one document with the same texts', async () => {
    const text = await server.command(['call', 'export', 'acme']);
    const documents = text
      .trimEnd()
      .split('\n')
      .map((line) => z.object({ tool: z.string() }).parse(JSON.parse(line)));

    expect(documents.map(({ tool }) => tool)).toEqual(expect.arrayContaining(formulas));
  });

  test('118: recorded texts: the pages of Activity contain nothing that acts or reorders them', async () => {
    const rows = await rowsOf(keyId, count);
    const paths = rows.map(({ id }) => `/${id}`);
    const filters = [
      `?tool=${encodeURIComponent(evil)}`,
      `?application=${encodeURIComponent(evil)}`,
      `?error=${encodeURIComponent(evil)}`,
      `?person=${encodeURIComponent(evil)}`,
    ];
    for (const path of ['', ...paths, ...filters]) {
      const answer = await admin.browser.get(`/dashboard/acme/activity${path}`);
      const page = await answer.text();

      expect(answer.status).toBe(200);
      expect(page.replaceAll('\n', '').match(reorders)).toBeNull();
      expect(page).not.toContain('forged: "line"');
    }
  });

  test('118: recorded texts: the log of the server has whole lines of JSON only', () => {
    const lines = server.program.stderr.split('\n').filter((line) => line !== '');

    expect(lines.filter((line) => acts.test(line) || !line.startsWith('{'))).toEqual([]);
  });
});

describe('121: bounded rows: no text is stored at a length that callers choose', () => {
  const mebibyte = 'x'.repeat(1024 * 1024);
  const smile = '\ud83d\ude00';

  test('121: bounded rows: a name, URI, method or header of a mebibyte is cut', async () => {
    answerWith('no');
    const { id, key } = await newKey();
    const limited = await newKey('--scope', 'mcp:tools:read');
    const call = (body: string, headers = {}) =>
      mcpCall(endpoint, { key, body, headers: { ...versions, ...headers } });
    await call(rpc('tools/call', { name: mebibyte }), { 'user-agent': 'u'.repeat(8000) });
    await call(rpc('resources/read', { uri: `file:///${mebibyte}` }));
    await call(rpc('prompts/get', { name: `${smile.repeat(99)}x${smile}` }));
    await call(initialize().replace('"name":"test"', `"name":"${mebibyte}"`));
    await mcpCall(endpoint, {
      key: limited.key,
      body: rpc('tools/call', { name: mebibyte }),
      headers: versions,
    });

    const rows = [...(await rowsOf(id, 3)), ...(await rowsOf(limited.id, 1))];
    const texts = rows.flatMap((row) =>
      Object.values(row).filter((value) => typeof value === 'string'),
    );
    expect(Math.max(...texts.map(({ length }) => length))).toBe(500);
    expect(rows.map(({ subject }) => subject?.length)).toEqual([200, 500, 200, 200]);
    expect(rows[0]?.application).toHaveLength(200);
    // A character is stored whole or as the sign for a broken one, on each database.
    expect(rows[2]?.subject).toBe(`${smile.repeat(99)}x\ufffd`);
  });
});

describe('122: secrets in rows: no known form of a secret is stored of a call, in whatever column', () => {
  test('122: secrets in rows: of names, URIs, applications and errors', async () => {
    const letters = 'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8';
    const jwt = `eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.${letters}`;
    const secrets = [
      ...['secret', 'pk_live', 'mcp', 'code', 'rt', 'pat'].map((kind) => `${kind}_${letters}`),
      `whsec_${letters}abcdefg=`,
      jwt,
      `Bearer ${letters}`,
      `Basic ${Buffer.from(`dana:${letters}`).toString('base64')}`,
    ];
    const hidden = [letters, jwt, Buffer.from(`dana:${letters}`).toString('base64').slice(0, 30)];
    const uris = [
      `postgres://dana:${letters}@db.example/orders`,
      `https://${letters}@host.example/a`,
      `https://dana:${letters}%40x@host.example`,
      `https://dana:x@${letters}@host.example/a`,
      `ftp://dana:${letters.repeat(20)}@host.example/a`,
      `https://host.example/a?token=${letters}#${letters}`,
      `https://host.example/a#${letters}`,
      `/a?token=${letters}`,
    ];
    answerWith(secrets.join(' '));
    const { id, key } = await newKey();
    for (const secret of secrets) {
      await namedCall(key, secret, secret);
      await namedCall(key, `${'n'.repeat(178)}${secret}`, `x${secret}`);
      const body = rpc('tools/call', { name: `failing_${secret}` });
      await mcpCall(endpoint, { key, body, headers: { ...versions, 'user-agent': secret } });
    }
    for (const uri of uris) {
      await mcpCall(endpoint, { key, body: rpc('resources/read', { uri }), headers: versions });
    }

    const rows = await rowsOf(id, 3 * secrets.length + uris.length);
    const stored = rows.map((row) => JSON.stringify(row));
    expect(stored.filter((row) => hidden.some((one) => row.includes(one)))).toEqual([]);
    expect(rows.slice(-uris.length).map(({ subject }) => subject)).toEqual([
      'postgres://…@db.example/orders',
      'https://…@host.example/a',
      'https://…@host.example',
      'https://…@host.example/a',
      'ftp://…@host.example/a',
      'https://host.example/a?…',
      'https://host.example/a#…',
      '/a?…',
    ]);
    expect(rows[0]?.subject).toBe('secret_[redacted]');
    await indexCalls(stores.db, Date.now() + 86_400_000);
    const indexed = await stores.db.selectFrom('call_subject').select('subject').execute();
    const subjects = indexed.map(({ subject }) => subject);
    expect(subjects).toContain('secret_[redacted]');
    expect(subjects.filter((one) => hidden.some((part) => one.includes(part)))).toEqual([]);
  });
});
