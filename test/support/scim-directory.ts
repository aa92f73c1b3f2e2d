import { z } from 'zod';

import type { RunningServer } from './running-server.ts';

/** The answer to a request of a directory. */
export interface ScimAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Readonly<Record<string, unknown>>;
}

/** A directory that provisions an organization of a server. */
export interface ScimDirectory {
  readonly token: string;
  /** Sends a request; the path is below that of the organization. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<ScimAnswer>;
  /** Adds a user, active unless it says otherwise, and returns its id. */
  readonly addUser: (userName: string, but?: object) => Promise<string>;
  /** Adds a group, and returns its id. */
  readonly addGroup: (displayName: string, members?: readonly string[]) => Promise<string>;
  /** Sets whether a user is active. */
  readonly setActive: (id: string, active: boolean) => Promise<ScimAnswer>;
}

const created = z.object({ token: z.string() });
const withId = z.object({ id: z.string() });
const anything = z.record(z.string(), z.unknown());

/** Creates a SCIM token of an organization, and uses it. `domain` is confirmed first, if given. */
export async function scimDirectory(
  server: Pick<RunningServer, 'command' | 'base'>,
  organization: string,
  domain?: string,
): Promise<ScimDirectory> {
  if (domain !== undefined) {
    await server.command('domain', 'add', organization, domain);
    await server.command('domain', 'confirm', organization, domain);
  }
  const { token } = created.parse(await server.command('scim', 'create-token', organization));
  const ask: ScimDirectory['ask'] = (method, path, body) =>
    askScim(`${server.base}/scim/v2/${organization}${path}`, { method, token, body });
  const add = async (path: string, body: unknown) => {
    const answer = await ask('POST', path, body);
    if (answer.status === 201) return withId.parse(answer.json).id;
    throw new Error(`${answer.status} ${JSON.stringify(answer.json)}`);
  };
  return {
    token,
    ask,
    addUser: (userName, but = {}) =>
      add('/Users', {
        schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
        userName,
        active: true,
        ...but,
      }),
    addGroup: (displayName, members = []) =>
      add('/Groups', {
        schemas: ['urn:ietf:params:scim:schemas:core:2.0:Group'],
        displayName,
        members: members.map((value) => ({ value })),
      }),
    setActive: (id, active) =>
      ask('PATCH', `/Users/${id}`, {
        schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
        Operations: [{ op: 'replace', path: 'active', value: active }],
      }),
  };
}

/** One request of a directory. `X-Forwarded-For` claims `address`. */
export async function askScim(
  url: string,
  {
    method,
    token,
    body,
    address,
  }: { method: string; token: string | undefined; body?: unknown; address?: string },
): Promise<ScimAnswer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(address !== undefined && { 'X-Forwarded-For': address }),
      ...(body !== undefined && { 'Content-Type': 'application/scim+json' }),
    },
    body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const json = text === '' ? {} : anything.parse(JSON.parse(text));
  return { status: response.status, headers: response.headers, json };
}
