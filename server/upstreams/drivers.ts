// The kinds of upstreams. Each is one entry of `drivers`: what is stored, entered and shown of it, what forms and commands
// say of its settings, and how calls get there. The database, the admin API, the form of a server, the options of commands
// and the path of a call derive from that. A new kind is an entry here, a file that speaks to it, and what that file needs
// in `open-upstreams.ts`.
import assert from 'node:assert/strict';
import { z } from 'zod';

import type { Option } from '#config/option';
import type { FixedHeader } from '#db/servers';
import type { Upstream } from '#gateway/upstream';
import { slugPattern, slugRule } from '#organizations/slug';
import { headersField, textWithout } from '#upstreams/credentials/fixed-headers';

/** What forms and commands say of a setting. */
export interface SettingNotes {
  readonly label: string;
  /** Begins the sentence that says what is wrong with it. */
  readonly subject: string;
  /** Said when nothing was entered. */
  readonly missing: string;
  readonly help: string;
  /** Said instead of `help` in the form of a server that exists. */
  readonly helpOnChange?: string;
  /** `agent` offers the active agents of the organization. */
  readonly control: 'text' | 'url' | 'agent';
  readonly option: Option;
  /** Its column in the list of servers that commands print. */
  readonly column?: string;
}

/** Notes on the settings that administrators enter. They stand beside the schemas, so that no API document repeats them. */
const settingNotes = z.registry<SettingNotes>();

/** What an administrator does after a call that did not reach the upstream. */
export interface NextStep {
  readonly text: string;
  readonly link: { readonly text: string; readonly to: 'settings' | { readonly agent: string } };
}

type Out<Shape extends z.ZodRawShape> = [Shape] extends [never]
  ? unknown
  : [keyof Shape] extends [never]
    ? unknown
    : z.output<z.ZodObject<Shape>>;

/**
 * What is declared of a kind. `Stored`, `Entered` and `Shown` are its settings in these places: what is entered and shown
 * is what is stored, unless it is declared.
 */
interface Driver<
  Stored extends z.ZodRawShape,
  Entered extends z.ZodRawShape,
  Shown extends z.ZodRawShape,
  Credentials extends z.ZodRawShape,
> {
  /** In the form of a server. */
  readonly title: string;
  readonly help: string;
  /** Only the operator can choose it, outside of the dashboard, the API and commands. */
  readonly isOperators?: boolean;
  /** Sample data: offered after the other kinds. */
  readonly isSample?: boolean;
  /** What is stored, as JSON. `agentId` names an agent, and is a column of its own that refers to it. */
  readonly settings: Stored;
  /** Of a kind whose calls may carry credentials, which are stored in columns of their own. */
  readonly credentials?: Credentials;
  /** What administrators enter, with `settingNotes` for forms and commands. */
  readonly entered?: Entered;
  /** What every surface shows. */
  readonly shown?: Shown;
  /** Describes the kind in the API's document. */
  readonly doc?: string;
  /** Chooses a kind that has no settings, in a command. */
  readonly option?: Option;
  /** Turns what was entered into what is stored. */
  readonly choose?: (
    entered: Out<Entered>,
    context: ChoiceContext,
  ) => Promise<Out<Stored> | ChoiceProblem>;
  /** Whether a choice keeps the server's location, so that an earlier approval of it remains valid. */
  readonly staysVouched?: (before: Out<Stored>, chosen: Out<Stored>) => boolean;
  readonly open: (settings: Out<Stored>, at: OpenedFor, resources: UpstreamResources) => Upstream;
  /** Two upstreams with the same location share sessions; what was made at one location is invalid at another. The kind unless declared. */
  readonly location?: (settings: Out<Stored>) => string;
  /** `agentNames` are by id. */
  readonly view?: (settings: Out<Stored>, agentNames: ReadonlyMap<string, string>) => Out<Shown>;
  /** Text for a cell of a table. */
  readonly describe: (shown: Out<Shown>) => string;
  readonly nextStep?: (shown: Out<Shown>, server: string) => NextStep;
}

const intoPrivateNetwork =
  'leads into a private network: use an agent there, or ask the operator of this server to allow its host by --outbound-host';

const credentials = {
  /** The `UpstreamAccess` that the server uses: the upstream requires a token. */
  accessId: z.string().optional(),
  /** Calls carry a signed assertion of who calls. */
  tellsCallers: z.literal(true).optional(),
  /** Sent with every request to the origin of `url`; their values open only for it. */
  headers: z.custom<readonly FixedHeader[]>().optional(),
  /** When it last refused the current values of `headers` and accepted the previous ones; only read for pages. */
  headersRefusedAt: z.number().optional(),
};

const drivers = {
  demo: driver({
    title: 'The demo library',
    help: 'Sample data to try things with; no other system is involved.',
    isSample: true,
    option: { name: 'demo', doc: 'the demo library' },
    settings: {},
    open: (_, __, { demo }) => demo,
    describe: () => 'Demo library',
  }),
  http: driver({
    title: 'An HTTP server',
    help: 'An MCP server that speaks Streamable HTTP, at a public URL.',
    settings: {
      url: z.string(),
      /** Set unless the operator entered the URL: it must lead to the public internet, or to a host that the operator named. */
      publicOnly: z.literal(true).optional(),
    },
    credentials,
    entered: {
      url: textWithout(urlProblem, z.string().max(2000))
        .transform((text) => new URL(text).href)
        .register(settingNotes, {
          label: 'URL of the HTTP server',
          subject: 'The URL',
          missing: 'Type the URL of the HTTP server.',
          help: 'As https://mcp.example.com/mcp.',
          helpOnChange:
            'Another one forgets its authorization and the accounts that people connected, and another origin its fixed headers.',
          control: 'url',
          option: { name: 'http-url', value: 'URL', doc: 'a Streamable HTTP MCP server' },
          column: 'upstream_url',
        }),
      headers: headersField
        .optional()
        .describe('Sent with every request to it; those that it has for the same origin stay'),
    },
    shown: { url: z.string() },
    async choose({ url }, { isOperator, before, isForbidden }) {
      if (isOperator) return { url };
      const chosen = { url, publicOnly: true } as const;
      if (before && staysVouched(before, { kind: 'http', ...chosen })) return chosen;
      return isForbidden(new URL(url)) ? { field: 'url', problem: intoPrivateNetwork } : chosen;
    },
    staysVouched: (before, chosen) =>
      new URL(before.url).href === chosen.url && chosen.publicOnly === true,
    open: ({ url, publicOnly = false }, _, { http }) => http(url, publicOnly),
    location: ({ url }) => url,
    view: ({ url }) => ({ url }),
    describe: ({ url }) => url,
    nextStep: ({ url }) => ({
      text: `Its calls go to ${url}. This server reaches it on the public internet only, unless the operator allowed the host by --outbound-host; a private network needs an agent. The log of this server has the reason, under the request number below.`,
      link: { text: 'To its settings', to: 'settings' },
    }),
  }),
  agent: driver({
    title: 'An on-premise agent',
    help: 'A program inside your private network that dials out to this server.',
    settings: { agentId: z.string() },
    entered: {
      agent: z
        .string()
        .regex(slugPattern, slugRule)
        .describe('The name of the agent')
        .register(settingNotes, {
          label: 'Agent',
          subject: 'The agent',
          missing: 'Choose the agent.',
          help: 'It serves this server from inside your network, where its configuration has one of the same name.',
          control: 'agent',
          option: { name: 'agent', value: 'NAME', doc: 'an on-premise agent of the organization' },
          column: 'agent',
        }),
    },
    shown: { agent: z.string().describe('The name of the agent') },
    async choose({ agent }, { findAgent }) {
      const agentId = await findAgent(agent);
      if (agentId !== undefined) return { agentId };
      return { field: 'agent', problem: 'is not an agent of this organization' };
    },
    open: ({ agentId }, { server, owner }, { agent }) => agent(agentId, server, owner),
    location: ({ agentId }) => agentId,
    view: ({ agentId }, agentNames) => ({ agent: agentNames.get(agentId) ?? '' }),
    describe: ({ agent }) => `Agent ${agent}`,
    nextStep: ({ agent }, server) => ({
      text: `The agent ${agent} serves it. Its page says whether it is online, and whether its configuration has a server ${server}.`,
      link: { text: 'To the agent', to: { agent } },
    }),
  }),
  stdio: driver({
    title: 'A command of the server',
    help: 'The operator of this server configured it, and only the operator can.',
    isOperators: true,
    doc: 'A command that the operator configured',
    settings: {},
    open: (_, { organization, server, owner }, { stdio }) =>
      stdio(`${organization}/${server}`, owner),
    describe: () => 'A command of the server',
  }),
};

/** Declares a kind, and lets the compiler work out its types. */
function driver<
  Stored extends z.ZodRawShape,
  Entered extends z.ZodRawShape = Stored,
  Shown extends z.ZodRawShape = Stored,
  Credentials extends z.ZodRawShape = never,
>(
  declared: Driver<Stored, Entered, Shown, Credentials>,
): Driver<Stored, Entered, Shown, Credentials> {
  return declared;
}

type Kind = keyof typeof drivers;
type Declared<K extends Kind, Part extends 'settings' | 'credentials' | 'entered' | 'shown'> = Out<
  NonNullable<(typeof drivers)[K][Part]>
>;

/** Where the calls of a server go: the kind, its settings, and its credentials if it has any. */
export type UpstreamKind<K extends Kind = Kind> = {
  [P in K]: Readonly<{ kind: P } & Declared<P, 'settings'> & Declared<P, 'credentials'>>;
}[K];
/** What an administrator enters. */
export type UpstreamChoice<K extends Kind = Kind> = {
  [P in K]: Readonly<{ kind: P } & Declared<P, 'entered'>>;
}[K];
/** What every surface shows. */
export type UpstreamView<K extends Kind = Kind> = {
  [P in K]: Readonly<{ kind: P } & Declared<P, 'shown'>>;
}[K];

/** What opens connections to upstreams of each kind. */
export interface UpstreamResources {
  readonly http: (url: string, publicOnly: boolean) => Upstream;
  readonly agent: (agentId: string, server: string, owner: string) => Upstream;
  readonly demo: Upstream;
  /** `path` is `organization/server`. */
  readonly stdio: (path: string, owner: string) => Upstream;
}

/** The server whose upstream is opened, and the session owner, who shares no session or process with another. */
export interface OpenedFor {
  readonly organization: string;
  readonly server: string;
  readonly owner: string;
}

/** What checking a choice needs to know. */
export interface ChoiceContext {
  readonly isOperator: boolean;
  /** Where the calls went until now. */
  readonly before: UpstreamKind | undefined;
  /** The id of an active agent of the organization. */
  readonly findAgent: (name: string) => Promise<string | undefined>;
  /** Whether the URL itself already names a host that this server may not call. */
  readonly isForbidden: (url: URL) => boolean;
}

/** Why a choice is refused: a phrase that follows the name of the field. */
export interface ChoiceProblem {
  readonly field: string;
  readonly problem: string;
}

type AnyDriver = Driver<z.ZodRawShape, z.ZodRawShape, z.ZodRawShape, z.ZodRawShape>;
// The kind of an upstream picks the entry, which therefore gets its own settings; the compiler cannot follow that.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
const table = drivers as unknown as Readonly<Record<Kind, AnyDriver>>;
const kinds = Object.entries(table);

/** One schema for all kinds. */
function unionOf<Value>(
  schemaOf: (kind: string, declared: AnyDriver) => z.ZodObject,
  of: typeof kinds = kinds,
): z.ZodType<Value> {
  const [first, ...others] = of.map(([kind, declared]) => schemaOf(kind, declared));
  assert(first);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return z.discriminatedUnion('kind', [first, ...others]) as unknown as z.ZodType<Value>;
}

const storedSchema = unionOf<UpstreamKind>((kind, declared) =>
  z.object({ kind: z.literal(kind), ...declared.settings, ...declared.credentials }),
);
export const upstreamChoiceSchema = unionOf<UpstreamChoice>(
  (kind, { settings, entered = settings }) => z.strictObject({ kind: z.literal(kind), ...entered }),
  kinds.filter(([, { isOperators }]) => !isOperators),
);
export const upstreamViewSchema = unionOf<UpstreamView>(
  (kind, { settings, shown = settings, doc }) => {
    const schema = z.object({ kind: z.literal(kind), ...shown });
    return doc === undefined ? schema : schema.describe(doc);
  },
);

/** A setting that administrators enter; its notes say how. */
export interface EnteredSetting extends SettingNotes {
  /** Unique among all kinds, as the form of a server has the settings of each. */
  readonly name: string;
  readonly isOptional: boolean;
  /** What is wrong with a text that was entered, beyond its length and pattern: a phrase that follows the field's name. */
  readonly problemOf: (text: string) => string | undefined;
}

/** A kind as forms and commands offer it. */
export interface OfferedKind {
  readonly kind: string;
  readonly title: string;
  readonly help: string;
  readonly isOperators: boolean;
  readonly settings: readonly EnteredSetting[];
  /** What chooses it in a command. */
  readonly options: readonly Option[];
}

/** Every kind, in the order of forms and commands: samples later, and last what only the operator chooses. */
export const offeredKinds: readonly OfferedKind[] = kinds
  .toSorted(([, one], [, other]) => offeredAt(one) - offeredAt(other))
  .map(([kind, declared]) => {
    const { title, help, isOperators = false, option } = declared;
    const settings = enteredSettings(declared.entered ?? declared.settings);
    const options = option ? [option] : settings.map((setting) => setting.option);
    return { kind, title, help, isOperators, settings, options };
  });

function offeredAt({ isSample = false, isOperators = false }: AnyDriver): number {
  if (isOperators) return 2;
  return isSample ? 1 : 0;
}

function enteredSettings(shape: z.ZodRawShape): EnteredSetting[] {
  return Object.entries(shape).flatMap(([name, schema]) => {
    const notes = settingNotes.get(schema);
    if (!notes) return [];
    const problemOf = (text: string) =>
      z.safeParse(schema, text).error?.issues.find(({ code }) => code === 'custom')?.message;
    const isOptional = z.safeParse(schema, undefined).success;
    return [{ ...notes, name, isOptional, problemOf }];
  });
}

/** What a row of the database stores of an upstream. */
export interface UpstreamColumns {
  readonly kind: string;
  /** A JSON object: the same text for the same settings. */
  readonly settings: string;
  readonly agentId: string | null;
  /** Absent for what is not stored. */
  readonly credentials?: object;
}

/** The columns of an upstream, apart from its credentials. */
export function upstreamColumns(upstream: UpstreamKind): UpstreamColumns {
  const { kind } = upstream;
  const { agentId = null, ...settings } = z
    .object({ agentId: z.string().optional(), ...table[kind].settings })
    .parse(upstream);
  return { kind, settings: JSON.stringify(settings), agentId };
}

/** @returns `undefined` for a row that this program does not understand */
export function readUpstream({
  kind,
  settings,
  agentId,
  credentials: stored,
}: UpstreamColumns): UpstreamKind | undefined {
  const columns: unknown = JSON.parse(settings);
  const all = { ...Object(columns), kind, ...(agentId !== null && { agentId }), ...stored };
  return storedSchema.safeParse(all).data;
}

/** Returns the upstream of a server for one session owner. */
export function openUpstream(
  upstream: UpstreamKind,
  at: OpenedFor,
  resources: UpstreamResources,
): Upstream {
  return table[upstream.kind].open(upstream, at, resources);
}

/** Where an upstream is. A session or a cached fact of one location is invalid at any other. */
export function upstreamLocation(upstream: UpstreamKind): string {
  return table[upstream.kind].location?.(upstream) ?? upstream.kind;
}

/** Whether what was made for one of them, as a token, is valid for the other. */
export function isSameLocation(one: UpstreamKind, other: UpstreamKind): boolean {
  return one.kind === other.kind && upstreamLocation(one) === upstreamLocation(other);
}

/** The URL that tokens and fixed headers are for, where calls carry any. */
export function credentialsUrl(upstream: UpstreamKind): string | undefined {
  return table[upstream.kind].credentials && upstreamLocation(upstream);
}

export function toUpstreamView(
  upstream: UpstreamKind,
  agentNames: ReadonlyMap<string, string>,
): UpstreamView {
  const { kind } = upstream;
  return upstreamViewSchema.parse({ ...upstream, ...table[kind].view?.(upstream, agentNames) });
}

/** Describes where the calls of a server go, for a cell of a table. */
export function describeUpstream(view: UpstreamView): string {
  return table[view.kind].describe(view);
}

/** What an administrator does after a call that did not reach the upstream; `undefined` where nothing helps. */
export function nextStepFor(view: UpstreamView, server: string): NextStep | undefined {
  return table[view.kind].nextStep?.(view, server);
}

/** The columns of settings in the list of servers that commands print. */
export const settingColumns: readonly string[] = offeredKinds.flatMap(({ settings }) =>
  settings.flatMap(({ column }) => column ?? []),
);

/** What these columns hold of an upstream, `null` where another kind has them. */
export function listedSettings(view: UpstreamView): Readonly<Record<string, string | null>> {
  const columns = offeredKinds.flatMap(({ kind, settings }) =>
    settings.flatMap(({ name, column }) => {
      if (column === undefined) return [];
      const value: unknown = kind === view.kind ? Reflect.get(view, name) : undefined;
      return [[column, typeof value === 'string' ? value : null] as const];
    }),
  );
  return Object.fromEntries(columns);
}

/**
 * Turns the choice of an administrator into settings. A URL that the operator did not enter must lead to the public
 * internet, unless it is the one that the server has already.
 */
export async function chooseUpstream(
  choice: UpstreamChoice,
  context: ChoiceContext,
): Promise<UpstreamKind | ChoiceProblem> {
  const { kind } = choice;
  const { choose, isOperators } = table[kind];
  assert(!isOperators, `${kind} cannot be chosen`);
  const chosen = choose ? await choose(choice, context) : choice;
  return isProblem(chosen) ? chosen : storedSchema.parse({ ...chosen, kind });
}

function isProblem(chosen: object): chosen is ChoiceProblem {
  return 'problem' in chosen;
}

/** Whether a choice keeps the server's location, so that an earlier approval of it remains valid. */
export function staysVouched(before: UpstreamKind, chosen: UpstreamKind): boolean {
  if (before.kind !== chosen.kind) return false;
  return table[chosen.kind].staysVouched?.(before, chosen) ?? false;
}

/** What is wrong with the URL of an upstream, as a phrase that follows the field's name. */
function urlProblem(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'is not an http or https URL';
  if (url.username || url.password || url.hash) return 'may hold no user, password or fragment';
  return undefined;
}
