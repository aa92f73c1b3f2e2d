import { vi } from 'vitest';
import { z } from 'zod';

import { callingPerson } from '../calling-person.ts';
import { serverProcess } from '../server-process.ts';
import type { Credential } from '../talking-gateway.ts';
import { recordingUpstream } from '../upstreams/recording-upstream.ts';
import { answering, names, type ServerEra } from './model-server.ts';
import {
  type Audience,
  type Caller,
  type Kind,
  kinds,
  listedKinds,
  mayUse,
  type Selection,
} from './reference.ts';
import { decided, newState, noteList, setOthers } from './state.ts';
import { type Action, all, callers, type CallerName, groupNames, type Holder } from './steps.ts';
import {
  announced,
  argument,
  consoleTools,
  isResult,
  linesOf,
  McpCaller,
  use,
  type Way,
  ways,
} from './views.ts';

const item = z.object({
  kind: z.enum([...kinds, 'instructions']),
  name: z.string(),
  allowed: z.boolean().nullable(),
  accepted_digest: z.string().nullable(),
  changed: z.object({ digest: z.string() }).nullable(),
});
const decision = item.pick({ kind: true, name: true, allowed: true });
const toolsView = z.object({ items: z.array(item) });
const everyScope = 'mcp:tools:read mcp:tools:execute mcp:resources:read';
const record = z.record(z.string(), z.unknown());
const peopleView = z.object({ items: z.array(z.object({ id: z.string(), email: z.string() })) });
/** The kinds that each list names. */
const listKinds = {
  tools: ['tool'],
  prompts: ['prompt'],
  resources: ['resource', 'template'],
} as const satisfies Record<(typeof announced)[number], readonly Kind[]>;

/** Callers are told within a second; much longer waiting would leave no time to look for a shorter walk. */
const untilTold = { timeout: 40_000, interval: 50 };

interface Named {
  readonly kind: Kind;
  readonly name: string;
}

/** A server with a model of an MCP server, two people, a key, a client, and the state of the reference. */
export async function openWorld(era: ServerEra) {
  await using stack = new AsyncDisposableStack();
  const upstream = stack.use(await recordingUpstream());
  const server = stack.use(await serverProcess());
  const state = newState();
  upstream.answer = answering(state, era);
  const endpoint = `${server.base}/mcp/acme/web`;
  const tools = '/acme/servers/web/tools';
  const run = async (...words: string[]) =>
    record.parse(JSON.parse(await server.command([...words, '--json'])));
  await run('organization', 'create', 'acme');
  await run('server', 'create', 'acme/web', '--http-url', upstream.url);
  const person = (name: string, role: string) =>
    callingPerson(server, `${name}@example.com`, { organization: 'acme', role });
  const owner = await person('ann', 'owner');
  const members = { dana: await person('dana', 'member'), omar: await person('omar', 'member') };
  const groupIds = new Map<string, string>();
  for (const name of groupNames) {
    groupIds.set(name, String((await run('group', 'create', 'acme', name))['id']));
  }
  const scopes = everyScope.split(' ').flatMap((scope) => ['--scope', scope]);
  const create = ['client', 'create', 'acme/web', ...scopes];
  const app = await run(...create, '--name', 'app', '--redirect-uri', 'http://127.0.0.1/callback');
  const job = await run(...create, '--name', 'job');
  const desk = await run('key', 'create', 'acme/web', '--name', 'desk', ...scopes);
  const credentials: Record<CallerName, Credential> = {
    dana: { token: await members.dana.allow(String(app['client_id']), everyScope) },
    omar: { token: await members.omar.allow(String(app['client_id']), everyScope) },
    desk: { key: String(desk['key']) },
    job: { token: await ownToken(server.base, job) },
  };
  const { items: grants } = peopleView.parse(await (await owner.ask('/acme/grants')).json());
  const grantOf = (name: string) => grants.find(({ email }) => email.startsWith(name))?.id ?? '';
  const { items: users } = peopleView.parse(await (await owner.ask('/acme/people')).json());
  const userOf = (name: string) => users.find(({ email }) => email.startsWith(name))?.id ?? '';

  const groups = { dana: new Set<string>(), omar: new Set<string>() };
  const selections: Record<Holder, Selection> = {
    dana: all,
    omar: all,
    desk: all,
    job: all,
    app: all,
  };
  const ids: Record<CallerName, string> = {
    dana: grantOf('dana'),
    omar: grantOf('omar'),
    desk: String(desk['id']),
    job: String(job['client_id']),
  };
  const paths: Record<Holder, string> = {
    dana: `/acme/grants/${ids.dana}`,
    omar: `/acme/grants/${ids.omar}`,
    desk: `/acme/keys/${ids.desk}`,
    job: `/acme/clients/${ids.job}`,
    app: `/acme/clients/${String(app['client_id'])}`,
  };

  async function administer(method: string, path: string, body?: object): Promise<boolean> {
    const answer = await owner.ask(path, { method, body });
    if (answer.ok || answer.status === 404 || answer.status === 409) return answer.ok;
    throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  }

  async function view(as?: string) {
    const query = as === undefined ? '' : `?as=${encodeURIComponent(as)}`;
    return toolsView.parse(await (await owner.ask(`${tools}${query}`)).json()).items;
  }

  /** The definition that a person would read on the page. */
  async function read(of: Named): Promise<object> {
    const found = (await view()).find(({ kind, name }) => kind === of.kind && name === of.name);
    return { ...of, digest: found?.changed?.digest ?? found?.accepted_digest ?? 'none' };
  }

  async function take(step: Action): Promise<void> {
    const withIds = (who: Audience) =>
      who === 'everyone'
        ? { access: 'everyone' }
        : { access: 'groups', group_ids: who.map((name) => groupIds.get(name)) };
    switch (step.act) {
      case 'restrict': {
        const group_ids = step.who.map((name) => groupIds.get(name));
        await administer('POST', `${tools}/restrict`, { rules: [{ ...step.of, group_ids }] });
        return void state.rules[step.of.kind].set(step.of.name, step.who);
      }
      case 'open':
        await administer('POST', `${tools}/open`, { tools: [step.of] });
        return void state.rules[step.of.kind].set(step.of.name, 'everyone');
      case 'remove rule':
        await administer('POST', `${tools}/rules/remove`, { tools: [step.of] });
        return void state.rules[step.of.kind].delete(step.of.name);
      case 'set default':
        await administer('PATCH', `${tools}/default`, { kind: step.kind, ...withIds(step.who) });
        return setOthers(state, step.kind, step.who);
      case 'move': {
        const path = `/acme/groups/${groupIds.get(step.group)}/people/${userOf(step.person)}`;
        await administer(step.isIn ? 'POST' : 'DELETE', path);
        return void groups[step.person][step.isIn ? 'add' : 'delete'](step.group);
      }
      case 'hide':
        await administer('PATCH', '/acme/servers/web', { hidden_tools: step.tools });
        return void (state.hidden = new Set(step.tools));
      case 'set policies': {
        const { changedTools: changed_tools, newTools: new_tools } = step;
        await administer('PATCH', '/acme/servers/web', { changed_tools, new_tools });
        return void Object.assign(state, { changedTools: changed_tools, newTools: new_tools });
      }
      case 'add':
      case 'change': {
        const { of, readOnly } = step;
        const version =
          (state.listed[of.kind].get(of.name)?.version ?? 0) + (step.act === 'change' ? 1 : 0);
        return void state.listed[of.kind].set(of.name, { version, readOnly });
      }
      case 'remove':
        return void state.listed[step.of.kind].delete(step.of.name);
      case 'accept':
      case 'reject': {
        const isDone = await administer('POST', `${tools}/${step.act}`, {
          tools: [await read(step.of)],
        });
        const known = state.known[step.of.kind].get(step.of.name);
        const mayDecide = known && (step.act === 'accept' || known.seen !== undefined);
        if (isDone !== Boolean(mayDecide)) throw new Error(`${JSON.stringify(step)}: ${isDone}`);
        if (known && mayDecide) {
          state.known[step.of.kind].set(step.of.name, decided(known, step.act));
        }
        return;
      }
      case 'correct': {
        const { name, to } = step;
        await administer('PATCH', `${tools}/correction`, { name, read_only: to ?? null });
        const known = state.known.tool.get(name);
        if (known) state.known.tool.set(name, { ...known, corrected: to });
        return;
      }
      case 'select': {
        const { type, ...chosen } = step.to;
        const selected = type === 'chosen' ? { type, ...chosen } : { type };
        await administer('PATCH', paths[step.holder], { tools: selected });
        return void (selections[step.holder] = step.to);
      }
    }
  }

  const isPerson = (name: CallerName) => name === 'dana' || name === 'omar';
  const rightsOf = (name: CallerName): Caller =>
    isPerson(name)
      ? { groups: groups[name], selections: [selections[name], selections.app] }
      : { groups: undefined, selections: [selections[name]] };
  const there = (kind: Kind): readonly string[] =>
    kind === 'resource' ? names.resource : [...state.listed[kind].keys()];
  const usable = (name: CallerName, kind: Kind) =>
    there(kind)
      .filter((one) => mayUse(state, rightsOf(name), kind, one))
      .toSorted();

  // All callers' lists depend on rules from the beginning, so that they are told of changes.
  await take({ act: 'restrict', of: { kind: 'tool', name: 'report' }, who: ['sales'] });
  // Different selections of a client and of a person's access rarely come together by chance.
  const chosen = { type: 'chosen', prompts: ['greet'], resources: ['memo://{id}'] } as const;
  await take({ act: 'select', holder: 'app', to: { ...chosen, tools: ['search', 'refund'] } });
  await take({ act: 'select', holder: 'dana', to: { ...chosen, tools: ['refund', 'Refund'] } });
  const opened = await Promise.all(
    callers.map(async (name) => [name, await McpCaller.open(endpoint, credentials[name])] as const),
  );
  const clients: Record<string, McpCaller> = Object.fromEntries(opened);
  const clientOf = (name: CallerName) => clients[name] ?? opened[0]![1];

  /** The lists of each caller, and how often the caller was told of changes. */
  const heard = () =>
    callers.flatMap((caller) =>
      announced.map((list) => ({
        caller,
        list,
        lists: JSON.stringify(listKinds[list].map((kind) => usable(caller, kind))),
        told: clientOf(caller).told(list),
      })),
    );

  /** Makes the server list all that is reviewed, as the calls of any caller do. */
  async function readLists() {
    for (const kind of listedKinds) {
      await clientOf('desk').list('modern', kind);
      noteList(state, kind);
    }
  }
  await readLists();

  const started = stack.move();
  return {
    /**
     * Takes a step, waits until all callers whose lists it changed were told, and compares all answers with the reference.
     *
     * @returns how many answers were compared
     * @throws {Error} with the answers that differ from the reference
     */
    async take(step: Action, turn: number): Promise<number> {
      const before = heard();
      await take(step);
      await readLists();
      // The MCP server announces nothing by itself.
      if (!['add', 'remove', 'change'].includes(step.act)) await tellsOfChanges(before);
      const wrong: string[] = [];
      let count = 0;
      const same = (where: string, found: unknown, expected: unknown) => {
        count += 1;
        const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
        if (one !== other) wrong.push(`${where} says ${one} instead of ${other}`);
      };
      for (const [index, caller] of callers.entries()) {
        await compareCalls(caller, ways[(turn + index) % ways.length] ?? 'modern', same);
      }
      await compareViews(callers[turn % callers.length] ?? 'dana', same);
      if (wrong.length > 0) throw new Error(wrong.join('; '));
      return count;
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };

  async function tellsOfChanges(before: ReturnType<typeof heard>): Promise<void> {
    const after = heard();
    for (const [index, { caller, list, lists, told: toldBefore }] of before.entries()) {
      if (lists === after[index]?.lists) continue;
      await vi.waitFor(() => {
        const now = clientOf(caller).told(list);
        if (now.modern > toldBefore.modern && now.session > toldBefore.session) return;
        throw new Error(`${caller} was not told that ${list} changed: ${JSON.stringify(now)}`);
      }, untilTold);
    }
  }

  async function compareCalls(caller: CallerName, way: Way, same: Same): Promise<void> {
    const client = clientOf(caller);
    const who = `${caller}, ${way}`;
    for (const kind of kinds) {
      const expected = usable(caller, kind);
      same(`${who}: the list of each ${kind}`, await client.list(way, kind), expected);
      for (const name of there(kind)) {
        const { method, params } = use(kind, name);
        const isDone = isResult(await client.ask(way, method, params));
        same(`${who}: ${method} ${name}`, isDone, expected.includes(name));
      }
    }
    for (const name of there('prompt')) {
      const ref = { type: 'ref/prompt', name };
      const isDone = isResult(await client.ask(way, 'completion/complete', { ref, argument }));
      same(`${who}: completion ${name}`, isDone, usable(caller, 'prompt').includes(name));
    }
    if (way === 'plain') return;
    for (const uri of names.resource) {
      const expected = usable(caller, 'resource').includes(uri);
      same(`${who}: a subscription to ${uri}`, await client.subscribes(way, uri), expected);
    }
  }

  async function compareViews(caller: CallerName, same: Same): Promise<void> {
    const id = ids[caller];
    const items = (await view(id)).filter((one) => one.kind !== 'instructions');
    const listed = ['tool', 'list', 'acme/web', '--as', id, '--json'];
    const decisions = items.flatMap(({ kind, name, allowed }) =>
      allowed === null ? [] : [{ kind, name, allowed }],
    );
    const printed = z.array(decision).parse(JSON.parse(await server.command(listed)));
    same(`${caller}: the command`, printed, decisions);
    const page = `/dashboard/acme/servers/web/tools/check?who=${encodeURIComponent(id)}`;
    const lines = linesOf(await (await owner.browser.get(page)).text());
    same(
      'the page',
      lines,
      items.map(({ name, allowed }) => ({ name, isAllowed: allowed })),
    );
    for (const kind of kinds) {
      const ofKind = items.filter((one) => one.kind === kind);
      const known = kind === 'resource' ? state.rules.resource : state.known[kind];
      for (const name of known.keys()) {
        const allowed = ofKind.find((one) => one.name === name)?.allowed;
        same(
          `${caller}: the API of ${kind} ${name}`,
          allowed,
          mayUse(state, rightsOf(caller), kind, name),
        );
      }
    }
    if (!isPerson(caller)) return;
    const own = { groups: groups[caller], selections: [] };
    const expected = there('tool').filter((name) => mayUse(state, own, 'tool', name));
    const shown = await members[caller].browser.get('/dashboard/acme/servers/web/try');
    same(`${caller}: the console`, consoleTools(await shown.text()), expected.toSorted());
  }
}

type Same = (where: string, found: unknown, expected: unknown) => void;

async function ownToken(base: string, client: Record<string, unknown>): Promise<string> {
  const answer = await fetch(`${base}/api/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: String(client['client_id']),
      client_secret: String(client['client_secret']),
    }),
  });
  return String(record.parse(await answer.json())['access_token']);
}
