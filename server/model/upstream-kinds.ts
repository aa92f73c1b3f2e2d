// The kinds of upstreams. Each is one entry of `drivers`: which settings are stored, entered and displayed, and how forms and
// commands describe them. The database, the admin API, the form of a server and the options of commands derive from that. A new
// kind is an entry here, a case in `upstreams/open-upstream.ts`, and a file with its driver.
import assert from 'node:assert/strict';
import { z } from 'zod';

import type { Option } from './option.ts';
import { slugPattern, slugRule } from './slug.ts';
import { primitiveKinds } from './tool-rights.ts';
import { type FixedHeader, headersField, textWithout } from './fixed-headers.ts';

/** How forms and commands describe a setting. */
export interface SettingNotes {
  readonly label: string;
  /** The subject of a sentence that explains what is wrong with the setting. */
  readonly subject: string;
  /** Displayed when nothing was entered. */
  readonly missing: string;
  readonly help: string;
  /** Replaces `help` in the form of an existing server. */
  readonly helpOnChange?: string;
  /** `agent` offers the active agents of the organization. */
  readonly control: 'text' | 'url' | 'agent';
  readonly option: Option;
  /** Its column in the list of servers that commands print. */
  readonly column?: string;
}

/** Notes on the settings that administrators enter. They are not part of the schemas, so that the API's document does not contain them. */
const settingNotes = z.registry<SettingNotes>();

/** A step that an administrator can take after a call that did not reach the upstream. */
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
 * The declaration of a kind. `Stored`, `Entered` and `Shown` are the schemas of its settings in the database, as input and in
 * views. Default of `Entered` and `Shown`: `Stored`.
 */
interface Driver<
  Stored extends z.ZodRawShape,
  Entered extends z.ZodRawShape,
  Shown extends z.ZodRawShape,
  Credentials extends z.ZodRawShape,
> {
  readonly title: string;
  readonly help: string;
  /**
   * How the kind is chosen, if not in the form, the API and the commands of servers: by the operator's configuration, or by a special
   * way to create a server.
   */
  readonly chosenBy?: 'operator' | 'creation';
  /** Sample data; listed after the other kinds. */
  readonly isSample?: boolean;
  /** The settings, stored as JSON. `agentId` is stored in a column of its own, which references the agent. */
  readonly settings: Stored;
  /** Set if calls can contain credentials, which are stored in columns of their own. */
  readonly credentials?: Credentials;
  /** The settings that administrators enter, with `settingNotes` for forms and commands. */
  readonly entered?: Entered;
  /** The settings that pages, commands and the API display. */
  readonly shown?: Shown;
  /** Describes the kind in the API's document. */
  readonly doc?: string;
  /** Chooses a kind that has no settings, in a command. */
  readonly option?: Option;
  /** Converts the entered settings into stored ones. */
  readonly choose?: (
    entered: Out<Entered>,
    context: ChoiceContext,
  ) => Promise<Out<Stored> | ChoiceProblem>;
  /** Whether a choice keeps the server's location, so that an earlier approval of it remains valid. */
  readonly staysVouched?: (before: Out<Stored>, chosen: Out<Stored>) => boolean;
  /** Identifies where the upstream is: sessions and tokens of one location are invalid at another. Default: the kind. */
  readonly location?: (settings: Out<Stored>) => string;
  /** `agentNames`: the names of agents, by id. */
  readonly view?: (settings: Out<Stored>, agentNames: ReadonlyMap<string, string>) => Out<Shown>;
  readonly describe: (shown: Out<Shown>) => string;
  readonly nextStep?: (shown: Out<Shown>, server: string) => NextStep;
}

const intoPrivateNetwork =
  'is in a private network: use an agent, or ask the operator to allow it: latchkey-server outbound allow HOST:PORT';

const credentials = {
  /** The `UpstreamAccess` that the server uses: the upstream requires a token. */
  accessId: z.string().optional(),
  /** Calls contain a signed assertion of the caller's identity. */
  forwardsCaller: z.literal(true).optional(),
  /** Sent with every request to the origin of `url`. The values can be decrypted only for this origin. */
  headers: z.custom<readonly FixedHeader[]>().optional(),
  /** When the upstream last refused the current values of `headers` and accepted the previous ones; only read for pages. */
  headersRefusedAt: z.number().optional(),
};

/** A name that a collection shows: the kind, the index in `members`, the member's own name, and the shown name if it differs. */
const sharedNameSchema = z.tuple([
  z.enum(primitiveKinds),
  z.int(),
  z.string(),
  z.string().optional(),
]);

const drivers = {
  demo: driver({
    title: 'Demo library',
    help: 'Sample data for trying Latchkey. No other system is involved.',
    isSample: true,
    option: { name: 'demo', doc: 'the demo library' },
    settings: {},
    describe: () => 'Demo library',
  }),
  http: driver({
    title: 'HTTP server',
    help: 'An MCP server with a public Streamable HTTP URL.',
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
          missing: 'Enter the URL of the HTTP server.',
          help: 'Example: https://mcp.example.com/mcp',
          helpOnChange:
            'A new URL removes the upstream authentication and the accounts that people connected. A new origin also removes the fixed headers.',
          control: 'url',
          option: { name: 'http-url', value: 'URL', doc: 'a Streamable HTTP MCP server' },
          column: 'upstream_url',
        }),
      headers: headersField
        .optional()
        .describe(
          'Sent with every request to the upstream; existing headers for the same origin are kept',
        ),
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
    location: ({ url }) => url,
    view: ({ url }) => ({ url }),
    describe: ({ url }) => url,
    nextStep: ({ url }) => ({
      text: `The upstream is ${url}. Latchkey reaches it only on the public internet, unless the operator allows its host with latchkey-server outbound allow. For a private network, use an agent.`,
      link: { text: 'Open settings', to: 'settings' },
    }),
  }),
  agent: driver({
    title: 'On-premise agent',
    help: 'A program in your private network that connects to Latchkey and reaches MCP servers there.',
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
          help: 'The agent’s configuration must have a server of the same name.',
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
    location: ({ agentId }) => agentId,
    view: ({ agentId }, agentNames) => ({ agent: agentNames.get(agentId) ?? '' }),
    describe: ({ agent }) => `Agent ${agent}`,
    nextStep: ({ agent }, server) => ({
      text: `The upstream is the agent ${agent}. Check that it is connected and that its configuration has a server ${server}.`,
      link: { text: 'View agent', to: { agent } },
    }),
  }),
  stdio: driver({
    title: 'Command on the Latchkey server',
    help: 'Configured by the operator of the Latchkey server; it cannot be changed here.',
    chosenBy: 'operator',
    doc: 'A command that the operator configured',
    settings: {},
    describe: () => 'Command on the Latchkey server',
  }),
  collection: driver({
    title: 'Collection',
    help: 'Tools, prompts and resources of other servers of the organization.',
    chosenBy: 'creation',
    doc: 'Other servers of the organization',
    settings: {
      members: z.array(z.object({ id: z.string(), name: z.string() })),
      names: z.array(sharedNameSchema),
    },
    shown: { members: z.array(z.string()).describe('The names of the servers') },
    view: ({ members }) => ({ members: members.map(({ name }) => name) }),
    describe: ({ members }) =>
      `Collection of ${members.length} ${members.length === 1 ? 'server' : 'servers'}`,
  }),
};

/** Declares a kind, so that the compiler infers its types. */
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

/** The upstream of a server: its kind, its settings, and its credentials if it has any. */
export type UpstreamKind<K extends Kind = Kind> = {
  [P in K]: Readonly<{ kind: P } & Declared<P, 'settings'> & Declared<P, 'credentials'>>;
}[K];
/** An upstream whose calls can contain credentials, all of which are for its `url`. */
export type CredentialedUpstream<K extends Kind = Kind> = {
  [P in K]: [NonNullable<(typeof drivers)[P]['credentials']>] extends [never]
    ? never
    : UpstreamKind<P>;
}[K];
/** An upstream as an administrator enters it. */
export type UpstreamChoice<K extends Kind = Kind> = {
  [P in K]: Readonly<{ kind: P } & Declared<P, 'entered'>>;
}[K];
/** An upstream as pages, commands and the API display it. */
export type UpstreamView<K extends Kind = Kind> = {
  [P in K]: Readonly<{ kind: P } & Declared<P, 'shown'>>;
}[K];

/** The facts and functions that are needed to check a choice. */
export interface ChoiceContext {
  readonly isOperator: boolean;
  /** The current upstream of the server. */
  readonly before: UpstreamKind | undefined;
  /** Returns the id of an active agent of the organization; `undefined` when there is none of that name. */
  readonly findAgent: (name: string) => Promise<string | undefined>;
  /** Whether the host in the URL is one that this server must not call. */
  readonly isForbidden: (url: URL) => boolean;
}

/** Why a choice is refused: a phrase that follows the name of the field. */
export interface ChoiceProblem {
  readonly field: string;
  readonly problem: string;
}

type AnyDriver = Driver<z.ZodRawShape, z.ZodRawShape, z.ZodRawShape, z.ZodRawShape>;
// An entry is always used with settings of its own kind, which the compiler cannot infer.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
const table = drivers as unknown as Readonly<Record<Kind, AnyDriver>>;
const kinds = Object.entries(table);

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
  kinds.filter(([, { chosenBy }]) => chosenBy === undefined),
);
export const upstreamViewSchema = unionOf<UpstreamView>(
  (kind, { settings, shown = settings, doc }) => {
    const schema = z.object({ kind: z.literal(kind), ...shown });
    return doc === undefined ? schema : schema.describe(doc);
  },
);

/** A setting that administrators enter, with its notes. */
export interface EnteredSetting extends SettingNotes {
  /** Unique among all kinds, because the form of a server contains the settings of all kinds. */
  readonly name: string;
  readonly isOptional: boolean;
  /** What is wrong with an entered text, apart from its length and pattern: a phrase that follows the field's name. */
  readonly problemOf: (text: string) => string | undefined;
}

/** A kind as forms and commands offer it. */
export interface OfferedKind {
  readonly kind: string;
  readonly title: string;
  readonly help: string;
  /** See `Driver`; `undefined` for a kind that can be chosen. */
  readonly chosenBy: 'operator' | 'creation' | undefined;
  readonly settings: readonly EnteredSetting[];
  /** The command options that choose it. */
  readonly options: readonly Option[];
}

/** All kinds, in the order of forms and commands: samples follow the others, and kinds that cannot be chosen there come last. */
export const offeredKinds: readonly OfferedKind[] = kinds
  .toSorted(([, one], [, other]) => offeredAt(one) - offeredAt(other))
  .map(([kind, declared]) => {
    const { title, help, chosenBy, option } = declared;
    const settings = enteredSettings(declared.entered ?? declared.settings);
    const options = option ? [option] : settings.map((setting) => setting.option);
    return { kind, title, help, chosenBy, settings, options };
  });

function offeredAt({ isSample = false, chosenBy }: AnyDriver): number {
  if (chosenBy !== undefined) return 2;
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

/** An upstream as stored in the database. */
export interface UpstreamColumns {
  readonly kind: string;
  /** A JSON object. Equal settings have equal texts. */
  readonly settings: string;
  readonly agentId: string | null;
  /** Its credentials, if any are stored. */
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

/** @returns `undefined` for a kind that this version does not know, or invalid settings */
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

/** Identifies where an upstream is. Sessions and cached facts of one location are invalid at any other. */
export function upstreamLocation(upstream: UpstreamKind): string {
  return table[upstream.kind].location?.(upstream) ?? upstream.kind;
}

/** Whether tokens and sessions of one upstream are valid at the other. */
export function isSameLocation(one: UpstreamKind, other: UpstreamKind): boolean {
  return one.kind === other.kind && upstreamLocation(one) === upstreamLocation(other);
}

/** Whether calls to upstreams of this kind can contain credentials. */
export function takesCredentials(upstream: UpstreamKind): upstream is CredentialedUpstream {
  return table[upstream.kind].credentials !== undefined;
}

/** The URL that tokens and fixed headers are for; `undefined` if calls to this kind never contain any. */
export function credentialsUrl(upstream: UpstreamKind | UpstreamView): string | undefined {
  return table[upstream.kind].credentials && 'url' in upstream ? upstream.url : undefined;
}

export function toUpstreamView(
  upstream: UpstreamKind,
  agentNames: ReadonlyMap<string, string>,
): UpstreamView {
  const { kind } = upstream;
  return upstreamViewSchema.parse({ ...upstream, ...table[kind].view?.(upstream, agentNames) });
}

/** Describes an upstream in a few words, for a cell of a table. */
export function describeUpstream(view: UpstreamView): string {
  return table[view.kind].describe(view);
}

/** What an administrator can do after a call that did not reach the upstream; `undefined` if there is nothing. */
export function nextStepFor(view: UpstreamView, server: string): NextStep | undefined {
  return table[view.kind].nextStep?.(view, server);
}

/** The columns of settings in the list of servers that commands print. */
export const settingColumns: readonly string[] = offeredKinds.flatMap(({ settings }) =>
  settings.flatMap(({ column }) => column ?? []),
);

/** The values of these columns for an upstream; `null` for settings of other kinds. */
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
 * Checks the choice of an administrator and converts it into settings. A URL that the operator did not enter must lead to the
 * public internet, unless the server already has it.
 */
export async function chooseUpstream(
  choice: UpstreamChoice,
  context: ChoiceContext,
): Promise<UpstreamKind | ChoiceProblem> {
  const { kind } = choice;
  const { choose, chosenBy } = table[kind];
  assert(chosenBy === undefined, `${kind} cannot be selected`);
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
  if (url.username || url.password || url.hash)
    return 'must not contain a user, a password or a fragment';
  return undefined;
}
