import { z } from 'zod';

/*
 * Everything that passes between the pages and the program behind them. Both sides check what comes:
 * the program because a page could be somebody else's, the page because it shows what it gets. Secrets go
 * one way, from the person to the program; no answer has a member for one.
 */

// Before the first shape is made: it would try to compile them, which the policy of our pages forbids.
z.config({ jitless: true });

const seconds = z.number().int();
const name = z.string().regex(/^[A-Za-z0-9][\w.-]{0,63}$/);
const secret = z.string().trim().min(1).max(4096);
const webUrl = z.string().trim().min(1).max(2048);
const assistant = z.string().regex(/^[a-z-]{1,32}$/);

/** How a connection is, as a page and the menu show it. */
export const connectionView = z.strictObject({
  name: z.string(),
  /** Empty where the connection cannot be read; `detail` says why. */
  url: z.string(),
  /** Who the server knows us as. */
  as: z.enum(['person', 'client', 'api_key']),
  state: z.enum(['ready', 'connecting', 'needs_sign_in', 'needs_key', 'trouble', 'offline']),
  /** What is wrong; empty when all is well. */
  detail: z.string(),
  /** Whose sign-in it is, where one URL has several. */
  account: z.string().optional(),
  /** The account of the person, as the server names it. */
  signedInAs: z.string().optional(),
  issuer: z.string().optional(),
  scopes: z.array(z.string()),
  tokenExpiresAt: seconds.optional(),
  /** The token is renewed without a person. */
  renewable: z.boolean(),
  lastCall: z
    .strictObject({
      at: seconds,
      method: z.string(),
      outcome: z.enum(['ok', 'tool_error', 'failed']),
      assistant: z.string(),
    })
    .optional(),
  /** It stands in our own list, and not in an assistant's file alone. */
  own: z.boolean(),
  /** The assistants that run it now, in their own words. */
  usedBy: z.array(z.string()),
  /** The assistants whose files start it. */
  startedBy: z.array(z.string()),
  /** The key or client secret can be replaced here. */
  rotates: z.boolean(),
  /** When the key was stored. */
  keySince: seconds.optional(),
  /** The key is older than the recommended 90 days. */
  keyDue: z.boolean(),
  /** A new key was stored, and no call has succeeded with it yet: the old one is kept. */
  oldKeyKept: z.boolean(),
  /** Where its keys and clients are looked after. */
  dashboard: z.string().optional(),
});
export type ConnectionView = z.infer<typeof connectionView>;

/** A sign-in that this app has begun. */
export const signInView = z.strictObject({
  name: z.string(),
  phase: z.enum(['opening', 'waiting', 'failed', 'done', 'cancelled']),
  /** Whether the browser was opened; else the person opens the address. */
  browserOpened: z.boolean(),
  since: seconds,
  problem: z.string(),
  remedy: z.string(),
});
export type SignInView = z.infer<typeof signInView>;

/** All that the tray and the window Connections show. */
export const overview = z.strictObject({
  /** Whether the connections have been read; before that nobody knows whether there are any. */
  known: z.boolean(),
  connections: z.array(connectionView),
  signIns: z.array(signInView),
  startAtLogin: z.boolean(),
  /** Why nothing newer than this is known; it is tried again. */
  trouble: z.strictObject({ problem: z.string(), remedy: z.string() }).optional(),
});
export type Overview = z.infer<typeof overview>;

/** Done, or why not: the page shows `problem`, and `remedy` below it. */
export const outcome = z.discriminatedUnion('ok', [
  z.strictObject({ ok: z.literal(true), message: z.string() }),
  z.strictObject({ ok: z.literal(false), problem: z.string(), remedy: z.string() }),
]);
export type Outcome = z.infer<typeof outcome>;

/** What a URL turned out to want. */
export const probed = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    url: z.string(),
    serverName: z.string(),
    needs: z.enum(['nothing', 'person', 'api_key']),
    takes: z.array(z.enum(['person', 'client', 'api_key'])),
    issuer: z.string().optional(),
    scopes: z.array(z.string()),
    suggestedName: z.string(),
    /** Somebody has to say which client id to use, as the server makes none. */
    needsClientId: z.boolean(),
  }),
  z.strictObject({ ok: z.literal(false), problem: z.string(), remedy: z.string() }),
]);
export type Probed = z.infer<typeof probed>;

/** What a pasted text says, without its secret. */
export const pasted = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    as: z.enum(['person', 'client', 'api_key']),
    name: z.string().optional(),
    url: z.string().optional(),
    clientId: z.string().optional(),
    scopes: z.array(z.string()),
  }),
  z.strictObject({ ok: z.literal(false), problem: z.string(), remedy: z.string() }),
]);
export type Pasted = z.infer<typeof pasted>;

const clientId = z.string().trim().min(1).max(2048);
const scopes = z.array(z.string().min(1).max(256)).max(64);
const pastedText = z.string().min(1).max(65_536);

/** What the person proves themselves with. */
export const credential = z.discriminatedUnion('as', [
  z.strictObject({ as: z.literal('person'), clientId: clientId.optional() }),
  z.strictObject({ as: z.literal('client'), clientId, clientSecret: secret, scopes }),
  z.strictObject({ as: z.literal('api_key'), apiKeySecret: secret }),
  z.strictObject({ as: z.literal('pasted'), pastedText }),
]);
export type Credential = z.infer<typeof credential>;

/** An assistant on this machine, and what it starts. */
export const assistantView = z.strictObject({
  id: z.string(),
  title: z.string(),
  file: z.string(),
  found: z.boolean(),
  installed: z.array(z.string()),
  /** Entries that can be taken over: they start mcp-remote, or hold a secret in the open. */
  importable: z.array(
    z.strictObject({ entry: z.string(), url: z.string(), fromMcpRemote: z.boolean() }),
  ),
  problem: z.string(),
});
export type AssistantView = z.infer<typeof assistantView>;

export const finding = z.strictObject({
  check: z.string(),
  state: z.enum(['ok', 'warn', 'fail']),
  what: z.string(),
  hint: z.string(),
});
export type Finding = z.infer<typeof finding>;

const nothing = z.strictObject({});
const named = z.strictObject({ name });

/** Each question that a page may ask, with the shape of what it says and of what it is told. */
const operations = {
  overview: { input: nothing, output: overview },
  probe: { input: z.strictObject({ url: webUrl }), output: probed },
  readPasted: { input: z.strictObject({ pastedText }), output: pasted },
  add: { input: z.strictObject({ name, url: webUrl, credential }), output: outcome },
  remove: { input: named, output: outcome },
  signIn: { input: named, output: outcome },
  cancelSignIn: { input: named, output: outcome },
  /** Puts the address of the page that waits on the clipboard, for another browser. */
  copySignInAddress: { input: named, output: outcome },
  signOut: { input: named, output: outcome },
  reconnect: { input: named, output: outcome },
  /** A new API key or client secret, whichever the connection has. */
  rotate: { input: z.strictObject({ name, secret }), output: outcome },
  undoRotation: { input: named, output: outcome },
  assistants: { input: nothing, output: z.array(assistantView) },
  install: { input: z.strictObject({ assistant, name }), output: outcome },
  uninstall: { input: z.strictObject({ assistant, name }), output: outcome },
  importEntry: {
    input: z.strictObject({ assistant, entry: z.string().max(256) }),
    output: outcome,
  },
  doctor: { input: nothing, output: z.array(finding) },
  openDashboard: { input: named, output: outcome },
  openWindow: {
    input: z.strictObject({
      window: z.enum(['connections', 'add', 'key', 'assistants', 'doctor']),
      name: name.optional(),
    }),
    output: outcome,
  },
} as const;

type Operations = typeof operations;
export type OperationName = keyof Operations;
export type InputOf<Name extends OperationName> = z.infer<Operations[Name]['input']>;
export type OutputOf<Name extends OperationName> = z.infer<Operations[Name]['output']>;

/** The same, so that the compiler knows each answer by the name of its question. */
export const shapes: {
  [Name in OperationName]: {
    input: z.ZodType<InputOf<Name>>;
    output: z.ZodType<OutputOf<Name>>;
  };
} = operations;

/** The one channel of questions, and the one of news, which carries an {@link Overview}. */
export const channels = { ask: 'latchkey:ask', changed: 'latchkey:changed' } as const;

/** A question on its channel: the operation, and its input still to be read. */
export const question = z.strictObject({
  operation: z.custom<OperationName>(
    (value) => typeof value === 'string' && Object.hasOwn(operations, value),
  ),
  input: z.unknown(),
});

/** What a page finds as `window.latchkey`. */
export type Bridge = {
  ask: <Name extends OperationName>(
    operation: Name,
    input: InputOf<Name>,
  ) => Promise<OutputOf<Name>>;
  onChange: (listener: (news: Overview) => void) => void;
};
