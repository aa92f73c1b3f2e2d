import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { runningServer, type RunningServer } from '#support/running-server';
import { scimDirectory, type ScimDirectory } from '#support/scim-directory';

const contentType = 'application/scim+json; charset=utf-8';
const folder = join(import.meta.dirname, 'replays');

/** A recording: requests as a directory really sends them, and what it expects. */
const replaySchema = z.strictObject({
  title: z.string(),
  /** Where the requests are from. */
  source: z.string().min(20),
  steps: z.array(
    z.strictObject({
      says: z.string(),
      method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
      /** `{name}` stands for what an earlier step saved. */
      path: z.string(),
      body: z.unknown().optional(),
      status: z.int(),
      /** What the answer contains. */
      json: z.record(z.string(), z.unknown()).optional(),
      /** What the answer must not have. */
      lacks: z.array(z.string()).optional(),
      save: z.record(z.string(), z.string()).optional(),
    }),
  ),
});

const replays = readdirSync(folder).map((file) =>
  replaySchema.parse(JSON.parse(readFileSync(join(folder, file), 'utf8'))),
);

let server: RunningServer;
beforeAll(async () => {
  server = await runningServer();
});
afterAll(() => server[Symbol.asyncDispose]());

let organizations = 0;
async function directory(): Promise<ScimDirectory> {
  organizations += 1;
  const name = `acme-${organizations}`;
  await server.command('organization', 'create', name);
  return scimDirectory(server, name);
}

test.each(replays)('replay: $title', async ({ steps }) => {
  const { ask } = await directory();
  const saved: Record<string, string> = {};
  const filled = (text: string) =>
    text.replaceAll(/\{(\w+)\}/g, (all, name: string) => saved[name] ?? all);
  const filledIn = (value: unknown): unknown =>
    value === undefined ? undefined : JSON.parse(filled(JSON.stringify(value)));
  for (const { says, method, path, body, status, json, lacks = [], save = {} } of steps) {
    const answer = await ask(method, filled(path), filledIn(body));
    expect({ says, status: answer.status, json: answer.json }).toMatchObject({
      says,
      status,
      json: filledIn(json) ?? {},
    });
    const type = answer.headers.get('content-type') ?? undefined;
    expect({ says, type }).toEqual({ says, type: status === 204 ? undefined : contentType });
    expect({ says, has: lacks.filter((name) => name in answer.json) }).toEqual({ says, has: [] });
    expect(JSON.stringify(answer.json)).not.toMatch(/:null\b/);
    for (const [name, member] of Object.entries(save)) saved[name] = String(answer.json[member]);
  }

  expect(steps.length).toBeGreaterThan(0);
});

test('replay: a location leads to what was created', async () => {
  const { ask } = await directory();
  const made = await ask('POST', '/Users', { userName: 'dana@example.com' });
  const location = made.headers.get('location') ?? '';

  expect(made.json).toMatchObject({ meta: { location } });
  expect(location).toContain(`${server.base}/scim/v2/acme-`);
});

test('pages: a list is read in pages from 1, each user once', async () => {
  const { ask, addUser } = await directory();
  for (let at = 0; at < 7; at += 1) await addUser(`user-${at}@example.com`);
  const names: unknown[] = [];
  const page = z.object({
    totalResults: z.literal(7),
    Resources: z.array(z.object({ userName: z.string() })),
  });
  for (const startIndex of [1, 4, 7]) {
    const { json } = await ask('GET', `/Users?startIndex=${startIndex}&count=3`);
    names.push(...page.parse(json).Resources.map(({ userName }) => userName));
  }
  const filter = encodeURIComponent('userName sw "USER-" and active eq true');
  const second = await ask('GET', `/Users?filter=${filter}&startIndex=6&count=3`);

  expect(new Set(names).size).toBe(7);
  expect(second.json).toMatchObject({ totalResults: 7, itemsPerPage: 2, startIndex: 6 });
});

test.each([
  ['another type of body', 'text/plain', '{}', 415, undefined],
  ['no JSON', 'application/scim+json', '{', 400, 'invalidSyntax'],
  ['a list', 'application/json', '[]', 400, 'invalidSyntax'],
  ['a member twice', 'application/json', '{"userName":"a","userName":"b"}', 400, 'invalidSyntax'],
])('request: %s is refused', async (_, type, body, status, scimType) => {
  const { token } = await directory();
  const response = await fetch(`${server.base}/scim/v2/acme-${organizations}/Users`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': type },
    body,
  });

  expect(response.status).toBe(status);
  expect(await response.json()).toMatchObject({
    schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
    status: String(status),
    ...(scimType !== undefined && { scimType }),
  });
});

test('request: a body over the limit is refused', async () => {
  const { ask } = await directory();
  const answer = await ask('POST', '/Users', { userName: 'a', title: 'x'.repeat(2_100_000) });

  expect(answer.status).toBe(413);
  expect(answer.json).toMatchObject({ status: '413' });
});
