import { z } from 'zod';
import { setUpName } from './set-up.ts';
import { windowNames } from './windows.ts';

/*
 * Everything that passes between the pages and the program behind them. Both sides check what they receive: the program because a
 * request could come from another page, the page because it shows the answer. Secrets go one way, from the user to the program; no
 * answer has a member for one.
 */

// Before the first schema: zod would try to compile it, which the content security policy of our pages forbids.
z.config({ jitless: true });

const seconds = z.number().int();
const name = z.string().regex(/^[A-Za-z0-9][\w.-]{0,63}$/);
const companyView = z.strictObject({
  issuer: z.string().refine((url) => URL.canParse(url)),
  clientId: z.string(),
  /** The provider can vouch for the user now, without them. */
  signedIn: z.boolean(),
  /** Why the sign-in has ended. */
  reason: z.string().optional(),
  /** The user's account there, as the provider names it. */
  signedInAs: z.string().optional(),
  expiresAt: seconds.optional(),
  /** The sign-in is renewed without the user. */
  renewable: z.boolean(),
});

const secret = z.string().trim().min(1).max(4096);
const webUrl = z.string().trim().min(1).max(2048);
const assistant = z.string().regex(/^[a-z-]{1,32}$/);

/** A connection as the pages and the menu show it. */
export const connectionView = z.strictObject({
  name: z.string(),
  /** Empty if the connection cannot be read; `detail` says why. */
  url: z.string().refine((url) => url === '' || URL.canParse(url)),
  /** The kind of credential. */
  as: z.enum(['person', 'client', 'api_key']),
  state: z.enum(['ready', 'connecting', 'needs_sign_in', 'needs_key', 'trouble', 'offline']),
  /** The problem; empty if there is none. */
  detail: z.string(),
  /** The account of the sign-in, if one URL has several. */
  account: z.string().optional(),
  /** The user's account, as the server names it. */
  signedInAs: z.string().optional(),
  issuer: z.string().optional(),
  scopes: z.array(z.string()),
  tokenExpiresAt: seconds.optional(),
  /** The token is renewed without the user. */
  renewable: z.boolean(),
  lastCall: z
    .strictObject({
      at: seconds,
      method: z.string(),
      outcome: z.enum(['ok', 'tool_error', 'failed']),
      assistant: z.string(),
    })
    .optional(),
  /** Latchkey's own configuration lists the connection, and not only the file of an assistant. */
  own: z.boolean(),
  /** The assistants that use the connection now, by the names that they give themselves. */
  usedBy: z.array(z.string()),
  /** The assistants whose files start the connection. */
  startedBy: z.array(z.string()),
  /** The key or client secret can be replaced here. */
  rotates: z.boolean(),
  /** When the key was stored. */
  keySince: seconds.optional(),
  /** The key is older than the recommended 90 days. */
  keyDue: z.boolean(),
  /** A new key was stored, and no call has succeeded with it yet: the old one is kept. */
  oldKeyKept: z.boolean(),
  /** The page where its keys and clients are managed. */
  dashboard: z.string().optional(),
  /** The sign-in at the provider of the company, if the connection gets its tokens through it. Connections share this sign-in. */
  company: companyView.optional(),
});
export type ConnectionView = z.infer<typeof connectionView>;

/** A sign-in that this app has started. */
const signInView = z.strictObject({
  name: z.string(),
  phase: z.enum(['opening', 'waiting', 'failed', 'done', 'cancelled']),
  /** If `false`, the user has to open the address. */
  browserOpened: z.boolean(),
  since: seconds,
  problem: z.string(),
  remedy: z.string(),
});
export type SignInView = z.infer<typeof signInView>;

/** All that the tray and the window Connections show. */
export const overview = z.strictObject({
  /** Whether the connections have been read. */
  known: z.boolean(),
  connections: z.array(connectionView),
  signIns: z.array(signInView),
  startAtLogin: z.boolean(),
  /** Why the connections could not be read again; the app keeps trying. */
  trouble: z.strictObject({ problem: z.string(), remedy: z.string() }).optional(),
  /** The failure of the last action of the menu or a notification. A page shows it, because the menu has closed by then. */
  menuFailure: z
    .strictObject({
      /** The name of the connection; empty if the action is not about one. */
      name: z.string(),
      problem: z.string(),
      remedy: z.string(),
      /** Counts the failures. */
      count: z.int(),
    })
    .optional(),
});
export type MenuFailure = NonNullable<Overview['menuFailure']>;
export type Overview = z.infer<typeof overview>;

/** Why an operation failed: a page shows `problem`, and `remedy` below it. */
const failed = z.strictObject({ ok: z.literal(false), problem: z.string(), remedy: z.string() });
export type Failed = z.infer<typeof failed>;

/** The outcome of an operation. */
export const outcome = z.discriminatedUnion('ok', [
  z.strictObject({ ok: z.literal(true), message: z.string() }),
  failed,
]);
export type Outcome = z.infer<typeof outcome>;

/** The requirements of the server at a URL. */
const probed = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    url: z.string(),
    serverName: z.string(),
    needs: z.enum(['nothing', 'person', 'api_key']),
    takes: z.array(z.enum(['person', 'client', 'api_key'])),
    issuer: z.string().optional(),
    scopes: z.array(z.string()),
    suggestedName: z.string(),
    /** The user must enter a client id, because the server does not register clients. */
    needsClientId: z.boolean(),
  }),
  failed,
]);
export type Probed = z.infer<typeof probed>;

/** The content of a pasted configuration, without its secret. */
export const pasted = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    as: z.enum(['person', 'client', 'api_key']),
    name: z.string().optional(),
    url: z.string().optional(),
    clientId: z.string().optional(),
    scopes: z.array(z.string()),
  }),
  failed,
]);
export type Pasted = z.infer<typeof pasted>;

const clientId = z.string().trim().min(1).max(2048);
const scopes = z.array(z.string().min(1).max(256)).max(64);
const pastedText = z.string().min(1).max(65_536);

export const credential = z.discriminatedUnion('as', [
  z.strictObject({ as: z.literal('person'), clientId: clientId.optional() }),
  z.strictObject({ as: z.literal('client'), clientId, clientSecret: secret, scopes }),
  z.strictObject({ as: z.literal('api_key'), apiKeySecret: secret }),
  z.strictObject({ as: z.literal('pasted'), pastedText }),
]);
export type Credential = z.infer<typeof credential>;

/** An assistant on this computer, and the connections that it starts. */
const assistantView = z.strictObject({
  id: z.string(),
  title: z.string(),
  file: z.string(),
  found: z.boolean(),
  installed: z.array(z.string()),
  /** Entries that can be imported: they start mcp-remote, or contain a secret in plain text. */
  importable: z.array(
    z.strictObject({ entry: z.string(), url: z.string(), fromMcpRemote: z.boolean() }),
  ),
  problem: z.string(),
});
export type AssistantView = z.infer<typeof assistantView>;

const finding = z.strictObject({
  check: z.string(),
  state: z.enum(['ok', 'warn', 'fail']),
  what: z.string(),
  hint: z.string(),
});
export type Finding = z.infer<typeof finding>;

/** The servers of the user at one Latchkey server. */
const serverListView = z.strictObject({
  /** The address of the Latchkey server. */
  url: z.string(),
  signedInAs: z.string().optional(),
  /** Why the servers are unknown; empty if they are known. */
  problem: z.string(),
  servers: z.array(
    z.strictObject({
      title: z.string(),
      description: z.string(),
      /** `in_use` by an assistant here, `connected` without one, or `available`: the user can choose it. */
      state: z.enum(['in_use', 'connected', 'available']),
      /** The assistants here that start a connection to the server. */
      assistants: z.array(z.string()),
      /** The connection here whose sign-in or key is missing, and which of the two. */
      lacks: z.strictObject({ what: z.enum(['sign_in', 'key']), connection: name }).optional(),
      /** The uses on other computers, such as `Cursor on danas-desktop`. */
      elsewhere: z.array(z.string()),
      /** What calls still need from the user, such as `key`. The user connects or enters it at `accountUrl`. */
      needs: z.string().optional(),
      accountUrl: z.string().optional(),
    }),
  ),
  /** The servers that the user cannot use, but may ask for at `askUrl`. */
  askable: z.array(
    z.strictObject({
      title: z.string(),
      description: z.string(),
      askUrl: z.string(),
      asked: z.enum(['no', 'open', 'declined']),
      answer: z.string(),
    }),
  ),
  /** A sentence for each server that was withdrawn. */
  withdrawn: z.array(z.string()),
});
export type ServerListView = z.infer<typeof serverListView>;

/** The computers of the user at one Latchkey server. */
const deviceListView = z.strictObject({
  list: z.string(),
  url: z.string(),
  problem: z.string(),
  devices: z.array(
    z.strictObject({
      id: z.string(),
      name: z.string(),
      system: z.string(),
      isCurrent: z.boolean(),
      assistants: z.array(z.string()),
      servers: z.array(z.string()),
      lastUsedAt: seconds.optional(),
    }),
  ),
});
export type DeviceListView = z.infer<typeof deviceListView>;

const nothing = z.strictObject({});
const named = z.strictObject({ name });
/** A connection, or the sign-in at the address of a company. */
const signInNamed = z.strictObject({ name: z.union([name, z.literal(setUpName)]) });

/** Each operation that a page may request, with the schemas of its input and output. */
const operations = {
  overview: { input: nothing, output: overview },
  probe: { input: z.strictObject({ url: webUrl }), output: probed },
  readPasted: { input: z.strictObject({ pastedText }), output: pasted },
  add: { input: z.strictObject({ name, url: webUrl, credential }), output: outcome },
  remove: { input: named, output: outcome },
  rename: { input: z.strictObject({ name, to: name }), output: outcome },
  signIn: { input: named, output: outcome },
  cancelSignIn: { input: signInNamed, output: outcome },
  /** Copies the address of the page that waits for the user, for another browser. */
  copySignInAddress: { input: signInNamed, output: outcome },
  signOut: { input: named, output: outcome },
  /** Signs in at the provider of this connection's company, for all connections that share the sign-in. */
  signInCompany: { input: named, output: outcome },
  signOutCompany: { input: named, output: outcome },
  reconnect: { input: named, output: outcome },
  /** Replaces the API key or the client secret, whichever the connection has. */
  rotate: { input: z.strictObject({ name, secret }), output: outcome },
  undoRotation: { input: named, output: outcome },
  servers: { input: nothing, output: z.union([z.array(serverListView), failed]) },
  /** Signs in at the address of a company, and connects the servers that the user chooses to all assistants. */
  setUp: { input: z.strictObject({ url: webUrl, choose: z.boolean() }), output: outcome },
  /** Opens a page that the answer of `servers` named. */
  openPage: { input: z.strictObject({ url: webUrl }), output: outcome },
  devices: { input: nothing, output: z.union([z.array(deviceListView), failed]) },
  signOutDevice: {
    input: z.strictObject({ list: webUrl, id: z.string().min(1).max(100) }),
    output: outcome,
  },
  assistants: { input: nothing, output: z.union([z.array(assistantView), failed]) },
  install: { input: z.strictObject({ assistant, name }), output: outcome },
  uninstall: { input: z.strictObject({ assistant, name }), output: outcome },
  importEntry: {
    input: z.strictObject({ assistant, entry: z.string().max(256) }),
    output: outcome,
  },
  /** Opens the file of an assistant in the user's editor. */
  openAssistantFile: { input: z.strictObject({ assistant }), output: outcome },
  doctor: { input: nothing, output: z.union([z.array(finding), failed]) },
  openDashboard: { input: named, output: outcome },
  openWindow: {
    input: z.strictObject({
      window: z.enum(windowNames),
      name: name.optional(),
    }),
    output: outcome,
  },
} as const;

type Operations = typeof operations;
export type OperationName = keyof Operations;
export type InputOf<Name extends OperationName> = z.infer<Operations[Name]['input']>;
export type OutputOf<Name extends OperationName> = z.infer<Operations[Name]['output']>;

/** `operations` with a type from which the compiler infers each output by the name of its operation. */
export const shapes: {
  [Name in OperationName]: {
    input: z.ZodType<InputOf<Name>>;
    output: z.ZodType<OutputOf<Name>>;
  };
} = operations;

/** The channel for requests, and the channel for changes, which carries an {@link Overview}. */
export const channels = { ask: 'latchkey:ask', changed: 'latchkey:changed' } as const;

/** A request: the operation, and its input, which is not checked yet. */
export const question = z.strictObject({
  operation: z.custom<OperationName>(
    (value) => typeof value === 'string' && Object.hasOwn(operations, value),
  ),
  input: z.unknown(),
});

/** The functions that the preload script gives a page as `window.latchkey`. */
export type Bridge = {
  ask: <Name extends OperationName>(
    operation: Name,
    input: InputOf<Name>,
  ) => Promise<OutputOf<Name>>;
  onChange: (listener: (news: Overview) => void) => void;
};
