import type { SignedIn, SignInProgress } from '#auth/sign-in';
import type { EpochSeconds } from '#clock/clock';
export type { SignedIn, SignInProgress } from '#auth/sign-in';
import type { OptionTexts } from '#config/options';
import type { Host } from '#host';
import type { Finding } from '#status/checks';
import type { RunningProxy } from '#status/running-proxy';
import type { MyDevice } from './my-devices.ts';
import type { AskableServer, MyServer } from './my-servers.ts';
export type { MyDevice } from './my-devices.ts';
export type { AskableServer, MyServer, ServerUse } from './my-servers.ts';

/** A connection as other front ends show it. Never contains a secret. */
export type ConnectionView = {
  name: string;
  url: string;
  /** The file with its entry: our own, or that of an assistant. */
  source: { file: string; own: boolean };
  /** The kind of credential; also `person` if the server requires no authentication. */
  as: 'api_key' | 'client' | 'person';
  /** From the stored secrets, overridden by the state of running proxies. */
  state: 'ready' | 'needs_sign_in' | 'trouble' | 'offline';
  /** The reason if it is not ready. */
  reason?: string;
  issuer?: string;
  /** The account that a person signed in with, if the server names it. */
  signedInAs?: string;
  scopes?: readonly string[];
  /** When the access token expires. `renewable`: it is renewed without the person. */
  expiresAt?: EpochSeconds;
  renewable: boolean;
  /** The proxies that run for it now. */
  proxies: readonly RunningProxy[];
  /** The assistants whose files start it, by the names that `install` takes. */
  startedBy: readonly string[];
  /** The key or client secret, if it is in the keychain. */
  secret?: SecretView;
  /** The sign-in at the provider of the company, if the connection gets its tokens with it. */
  company?: CompanyView;
};

/** A sign-in that is shared by all connections that name the same client of the same provider. */
export type CompanyView = {
  issuer: string;
  clientId: string;
  /** Whether the provider can vouch for the person now, without them. */
  signedIn: boolean;
  /** Why it has ended. */
  reason?: string;
  /** The account at the provider, if it names it. */
  signedInAs?: string;
  /** When the ID token expires. `renewable`: it is renewed without the person. */
  expiresAt?: EpochSeconds;
  renewable: boolean;
};

/** The result of a sign-in at the provider of a company. */
export type CompanySignedIn = {
  issuer: string;
  signedInAs?: string;
  /** The connections that are now signed in. */
  connections: readonly string[];
  /** The connections whose server does not support it. */
  unsupported: readonly string[];
  /** The connections that get no access, and why. */
  refused: readonly { name: string; problem: string }[];
};

/** The `connections` that were signed out. `notRevoked`: those of them whose server did not revoke the tokens that were deleted here. */
export type CompanySignedOut = {
  issuer: string;
  connections: readonly string[];
  notRevoked: readonly string[];
};

export type SecretView = {
  kind: 'api_key' | 'client_secret';
  /** When it was stored. Unknown for secrets that older releases stored. */
  storedAt?: EpochSeconds;
  /** Whether it was stored at least 90 days ago. */
  old: boolean;
  /** Whether the new secret has not been proven by a call yet, so that the old one is kept. */
  onTrial: boolean;
  /** The page for revoking the old secret. */
  dashboardUrl: string;
};

/** The requirements of the server at a URL. */
export type Probed = {
  url: string;
  /** A server that requires authentication but publishes no OAuth metadata can only require an API key. */
  needs: 'nothing' | 'person' | 'api_key';
  /** Every kind of credential that the server accepts. */
  takes: readonly ('person' | 'client' | 'api_key')[];
  /** A name for the server, from its host and path. */
  serverName: string;
  /** A name for the connection that is not in use. */
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
  | {
      as: 'person';
      clientId?: string;
      scopes?: readonly string[];
      /** `CLIENT_ID@ISSUER`, as in the `oauth` object. */
      identityProvider?: string;
    }
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

/** The contents of a pasted text, without the secret itself. */
export type Pasted = {
  name?: string;
  url?: string;
  clientId?: string;
  scopes?: readonly string[];
  as: 'person' | 'client' | 'api_key';
};

/** `notRevoked`: why the server did not revoke the tokens that were deleted here. */
export type SignedOut = {
  wasSignedIn: boolean;
  notRevoked?: string;
  /** The issuer of the company's provider whose sign-in ended, too. */
  provider?: string;
};

/** The assistants that started the old name. `problem`: why an assistant's file was left as it is. */
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

export type AssistantView = {
  /** The name that `install` accepts: `claude-desktop`. */
  id: string;
  title: string;
  file: string;
  /** Whether its file, or the folder for it, exists. */
  found: boolean;
  /** Why the file cannot be read or parsed. */
  problem?: string;
  /** The connections that it starts. */
  starts: readonly string[];
  /** The copies of its file, the newest last. */
  backups: readonly string[];
};

/** `changed`: false if the file had the entry already. `note`: what a person has to know about this assistant. */
export type Installed = { file: string; changed: boolean; backup?: string; note?: string };

export type Uninstalled = {
  file: string;
  did: 'restored' | 'removed' | 'absent';
  backup?: string;
};

/** An entry of an assistant's file that can be imported. */
export type Importable = {
  file: string;
  /** Its name in the file. */
  entry: string;
  /** The connection that it becomes. */
  name: string;
  url: string;
  /** The secrets that are moved to the keychain, described for a person. */
  moved: readonly string[];
  /** Whether it starts mcp-remote now. */
  fromMcpRemote: boolean;
};

export type Imports = {
  entries: readonly Importable[];
  problems: readonly { name: string; problem: string }[];
};

/** `signInRequired`: the connections that used the sign-in of mcp-remote, which is not imported. */
export type Imported = { file: string; backup?: string; signInRequired: readonly string[] };

export type Until = { signal?: AbortSignal };

/** A connection whose server is withdrawn. It stays, without entries in assistants. */
export type WithdrawnServer = {
  name: string;
  url: string;
  /** The assistants that started it until now. */
  removed: readonly { assistant: string; title: string; file: string; backup: string }[];
  /** Why some files were left as they are. */
  problems: readonly string[];
};

/** A chosen server, and the outcome for its connection. */
export type ConnectedServer = {
  name: string;
  server: MyServer;
  isNew: boolean;
  /** Why it was not connected. */
  problem?: string;
  /** The connection was there before and uses an API key, so it does not use the sign-in. */
  keptKey?: KeptKey;
};

/** `in_use`: the server accepts it, or gave no answer. `missing`: the keychain does not have it. */
export type KeptKey = 'in_use' | 'rejected' | 'missing';

/** The result of setting up a Latchkey server. `restart`: the titles of the assistants whose files changed. */
export type SetUpServers = {
  url: string;
  signedInAs?: string;
  servers: readonly ConnectedServer[];
  restart: readonly string[];
  /** Why assistants were left out. */
  problems: readonly string[];
};

/** The servers of the person at one Latchkey server. `problem`: why they are unknown, such as a sign-in that has ended. */
export type ServerListView = {
  /** The list, for `devices` and `signOutDevice`. */
  list: string;
  /** The address of the Latchkey server. */
  url: string;
  signedInAs?: string;
  problem?: string;
  servers: readonly (MyServer & {
    /** The connection on this computer, and the assistants that start it. */
    connection?: string;
    assistants: readonly string[];
    /** What the connection lacks: the person has to sign in, or to enter its key. */
    requires?: 'sign_in' | 'key';
  })[];
  askable: readonly AskableServer[];
  /** Servers that were withdrawn: they are in no assistant any more. */
  withdrawn: readonly WithdrawnServer[];
};

export type DeviceListView = {
  list: string;
  url: string;
  problem?: string;
  devices: readonly MyDevice[];
};

/** The operations for front ends without a terminal. Except for bugs, they reject only with {@link AccountsError}. */
export interface AccountsService {
  listConnections(): Promise<ConnectionView[]>;

  /** The connections now, and again after every change, until `signal` aborts. */
  watch(signal: AbortSignal): AsyncIterable<ConnectionView[]>;

  /** Asks a server what it requires. No secret is sent. */
  probe(url: string, until?: Until): Promise<Probed>;

  /** Reads a pasted text, before it is added. */
  readPasted(text: string): Promise<Pasted>;

  /** Checks the credential at the server first, and stores nothing if the server refuses it. */
  add(input: AddInput, until?: Until): Promise<Added>;

  /** Revokes the access at the server, deletes the connection with its secrets, and removes it from the assistants' files. */
  remove(name: string): Promise<SignedOut & { startedBy: readonly string[] }>;

  /** Opens the browser, waits for the person, and then notifies running proxies. */
  signIn(
    name: string,
    options: Until & { progress?: (progress: SignInProgress) => void },
  ): Promise<SignedIn>;

  signOut(name: string): Promise<SignedOut>;

  /** Signs in at the provider of a connection's company once, and to all connections that name the provider. Opens the browser if necessary. */
  signInCompany(
    name: string,
    options: Until & { progress?: (progress: SignInProgress) => void },
  ): Promise<CompanySignedIn>;

  /** Ends the sign-in at the provider of a connection's company, and signs out of the connections that got their tokens with it. */
  signOutCompany(name: string): Promise<CompanySignedOut>;

  /** Renames the connection, also in the files of assistants. */
  rename(from: string, to: string): Promise<Renamed>;

  /** Requests every running proxy of the connection to try its server now. Returns how many acknowledged. */
  reconnect(name: string): Promise<number>;

  /** Checks the new key at the server first. The old one is kept until a call with the new one succeeds. */
  rotateKey(name: string, apiKeySecret: string, until?: Until): Promise<Rotated>;

  /** Like `rotateKey`, for the secret of an OAuth client. */
  rotateSecret(name: string, clientSecret: string, until?: Until): Promise<Rotated>;

  /** Puts the old secret back while the new one is on trial; `false` if there is none. */
  undoRotation(name: string): Promise<boolean>;

  /** The servers that the person may use or ask for, at each Latchkey server that they set up. */
  myServers(): Promise<ServerListView[]>;

  /** Signs in at a Latchkey server once, and connects the servers that the person chooses to all assistants. */
  setUp(
    url: string,
    options: Until & { choose?: boolean; progress?: (progress: SignInProgress) => void },
  ): Promise<SetUpServers>;

  /** The computers of the person, at each Latchkey server that they set up. */
  devices(): Promise<DeviceListView[]>;

  /** Ends the access of one of these computers; `false` if there is no such device. */
  signOutDevice(list: string, id: string): Promise<boolean>;

  assistants(): Promise<AssistantView[]>;

  /** Adds the connection to the file of an assistant, which is backed up. `uninstall` undoes this. */
  install(assistant: string, name: string, options?: { replace?: boolean }): Promise<Installed>;

  uninstall(assistant: string, name: string): Promise<Uninstalled>;

  /** Describes what `import` would do for all assistants or one. */
  importable(assistant?: string): Promise<Imports>;

  /** Imports the named entry of a file, or all entries. */
  import(file: string, entry?: string): Promise<Imported>;

  /** Checks everything that a connection needs, or only this host; calls `found` for each finding immediately. */
  doctor(name?: string, found?: (finding: Finding) => void): Promise<readonly Finding[]>;

  /** Whether a notice about the connection may be shown: one a day over all processes. */
  claimNotice(name: string): Promise<boolean>;
}

/** The parts of its process that another front end provides. */
export type AccountsFront = Pick<
  Host,
  'platform' | 'home' | 'env' | 'pid' | 'parentPid' | 'nodeVersion' | 'launcher'
> & {
  /** Opens the system's browser by default. */
  openBrowser?: Host['openBrowser'];
  /** Options by their names on the command line. Options from the environment apply, too. */
  options?: OptionTexts;
};

/** The error of the accounts service: a message for a person, and the remedy. Never contains a secret. */
export class AccountsError extends Error {
  override readonly name = 'AccountsError';
  /** The code of the error behind it: `refused`, `unreachable`, `locked`, … */
  readonly code: string;
  /** What to do next; may be empty. */
  readonly hint: string;

  constructor(code: string, message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.hint = hint;
  }
}
