import type { SignedIn, SignInProgress } from '#auth/sign-in';
import type { EpochSeconds } from '#clock/clock';
export type { SignedIn, SignInProgress } from '#auth/sign-in';
import type { OptionTexts } from '#config/options';
import type { Host } from '#host';
import type { Finding } from '#status/checks';
import type { RunningProxy } from '#status/running-proxy';

/** A connection with everything that a person wants to see of it. Never a secret. */
export type ConnectionView = {
  name: string;
  url: string;
  /** The file with its entry: our own, or that of an assistant. */
  source: { file: string; own: boolean };
  /** `person` also if the server turned out to require no authentication. */
  as: 'api_key' | 'client' | 'person';
  /** From the stored secrets, overridden by the state of running proxies. */
  state: 'ready' | 'needs_sign_in' | 'trouble' | 'offline';
  /** Why, where it is not ready. */
  reason?: string;
  issuer?: string;
  /** The account that a person signed in with, where the server names it. */
  signedInAs?: string;
  scopes?: readonly string[];
  /** When the access token ends; `renewable`: without a person another one comes. */
  expiresAt?: EpochSeconds;
  renewable: boolean;
  /** The proxies that run for it now. */
  proxies: readonly RunningProxy[];
  /** The assistants whose files start it, by the names that `install` takes. */
  startedBy: readonly string[];
  /** The key or client secret in the keychain; absent where there is none there. */
  secret?: SecretView;
};

export type SecretView = {
  kind: 'api_key' | 'client_secret';
  /** When it was stored; unknown for what older releases stored. */
  storedAt?: EpochSeconds;
  /** 90 days have passed. */
  old: boolean;
  /** A new one is stored and has yet to work in a real call; the old one is still kept. */
  onTrial: boolean;
  /** The page where the old one is to be revoked. */
  dashboardUrl: string;
};

/** What a URL turned out to need. */
export type Probed = {
  url: string;
  /** `reachable` servers that guard themselves without OAuth metadata can only want an API key. */
  needs: 'nothing' | 'person' | 'api_key';
  /** What else the server takes: a client id and secret, a key. */
  takes: readonly ('person' | 'client' | 'api_key')[];
  /** The name of the server, where it tells; else the host and path in words. */
  serverName: string;
  /** A name for the connection that is free. */
  suggestedName: string;
  issuer?: string;
  scopes?: readonly string[];
  /** A client id is required, because the server does not register clients. */
  needsClientId: boolean;
};

export type AddInput = {
  name: string;
  url: string;
  /** A connection of that name is replaced. */
  replace?: boolean;
} & (
  | { as: 'person'; clientId?: string; scopes?: readonly string[] }
  | { as: 'client'; clientId: string; clientSecret: string; scopes?: readonly string[] }
  | { as: 'api_key'; apiKeySecret: string }
  | {
      /** The text of a desktop `oauth` object, or of an entry or file that holds one. */
      as: 'pasted';
      oauthText: string;
    }
);

/** `checked`: the kind of credential that the server accepts. `person`: a sign-in is required next; `null`: none is. */
export type Added = {
  name: string;
  url: string;
  checked: 'api_key' | 'client' | 'person' | null;
};

/** What a pasted text says; the secret itself is not repeated. */
export type Pasted = {
  name?: string;
  url?: string;
  clientId?: string;
  scopes?: readonly string[];
  as: 'person' | 'client' | 'api_key';
};

/** `notRevoked` says why the server still accepts what was forgotten here. */
export type SignedOut = { wasSignedIn: boolean; notRevoked?: string };

/** The assistants that started the old name; `problem` if the file of one was left as it is. */
export type Renamed = {
  url: string;
  assistants: readonly {
    /** By the name that `install` takes. */
    assistant: string;
    title: string;
    file: string;
    backup?: string;
    problem?: string;
  }[];
};

/** `onTrial` until a real call has worked with the new secret. */
export type Rotated = { name: string; onTrial: boolean; dashboardUrl: string };

/** An assistant on this host. */
export type AssistantView = {
  /** As `install` takes it: `claude-desktop`. */
  id: string;
  title: string;
  file: string;
  /** Its file, or the folder that it keeps it in, is there. */
  found: boolean;
  /** The file cannot be read, or is not JSON. */
  problem?: string;
  /** The connections that it starts. */
  starts: readonly string[];
  /** The copies of its file, the newest last. */
  backups: readonly string[];
};

/** `changed`: false where it stood there already. `note`: what a person has to know of this assistant. */
export type Installed = { file: string; changed: boolean; backup?: string; note?: string };

export type Uninstalled = {
  file: string;
  did: 'restored' | 'removed' | 'absent';
  backup?: string;
};

/** An entry of an assistant's file that can be taken over. */
export type Importable = {
  file: string;
  /** Its name there. */
  entry: string;
  /** The connection that it becomes. */
  name: string;
  url: string;
  /** What goes to the keychain, in words. */
  moved: readonly string[];
  /** It starts mcp-remote now. */
  fromMcpRemote: boolean;
};

export type Imports = {
  entries: readonly Importable[];
  problems: readonly { name: string; problem: string }[];
};

/** `signInRequired`: the connections that mcp-remote was signed in to, whose sign-in is not carried over. */
export type Imported = { file: string; backup?: string; signInRequired: readonly string[] };

export type Until = { signal?: AbortSignal };

/**
 * Everything that a face of this program can do, without a terminal. All of it rejects with
 * {@link AccountsError} and nothing else, but for bugs.
 */
export interface AccountsService {
  listConnections(): Promise<ConnectionView[]>;

  /** What there is now, then again after every change, until `signal` aborts. */
  watch(signal: AbortSignal): AsyncIterable<ConnectionView[]>;

  /** Asks a server what it requires. No secret is sent. */
  probe(url: string, until?: Until): Promise<Probed>;

  /** Reads a pasted text, before it is added. */
  readPasted(text: string): Promise<Pasted>;

  /** Tries the real endpoint first, and stores nothing if that refuses. */
  add(input: AddInput, until?: Until): Promise<Added>;

  /** Revokes at the server, deletes the connection with its secrets, and takes it out of the assistants' files. */
  remove(name: string): Promise<SignedOut & { startedBy: readonly string[] }>;

  /** Opens the system browser and waits for the person; running proxies are told at the end. */
  signIn(
    name: string,
    options: Until & { progress?: (progress: SignInProgress) => void },
  ): Promise<SignedIn>;

  signOut(name: string): Promise<SignedOut>;

  /** Gives the connection another name, in the files of assistants, too. */
  rename(from: string, to: string): Promise<Renamed>;

  /** Asks every running proxy of the connection to try its server now; how many heard it. */
  reconnect(name: string): Promise<number>;

  /** The new key is tried at the endpoint first; the old one is kept until a real call has worked. */
  rotateKey(name: string, apiKeySecret: string, until?: Until): Promise<Rotated>;

  /** The same for the secret of an OAuth client. */
  rotateSecret(name: string, clientSecret: string, until?: Until): Promise<Rotated>;

  /** Puts the old secret back while the new one is on trial; `false` when there is none to put back. */
  undoRotation(name: string): Promise<boolean>;

  assistants(): Promise<AssistantView[]>;

  /** Lets an assistant start the connection; a backup is made, and `uninstall` undoes it. */
  install(assistant: string, name: string, options?: { replace?: boolean }): Promise<Installed>;

  uninstall(assistant: string, name: string): Promise<Uninstalled>;

  /** What `import` would do, of all assistants or one. */
  importable(assistant?: string): Promise<Imports>;

  /** Takes the named entry of a file over, or all of that file. */
  import(file: string, entry?: string): Promise<Imported>;

  /** Checks everything that a connection needs, or this host alone; `found` is called for each finding immediately. */
  doctor(name?: string, found?: (finding: Finding) => void): Promise<readonly Finding[]>;

  /** Whether a notice about the connection may be shown: one a day over all processes. */
  claimNotice(name: string): Promise<boolean>;
}

/** What the other front provides of its process. */
export type AccountsFront = Pick<
  Host,
  'platform' | 'home' | 'env' | 'pid' | 'parentPid' | 'nodeVersion' | 'launcher'
> & {
  /** Unless given, the system's browser is opened. */
  openBrowser?: Host['openBrowser'];
  /** Options as the command line would name them; the environment counts besides. */
  options?: OptionTexts;
};

/** What the accounts service rejects with: a message for a person, with the remedy. Never with a secret. */
export class AccountsError extends Error {
  override readonly name = 'AccountsError';
  /** The kind of failure, as the error behind it says: `refused`, `unreachable`, `locked`, … */
  readonly code: string;
  /** What to do next; empty when there is nothing. */
  readonly hint: string;

  constructor(code: string, message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.hint = hint;
  }
}
