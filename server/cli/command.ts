import type { AdministrationPorts } from '#administration/administration-ports';
import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { Input } from '#config/read-options';
import type { Option } from '#config/option';
import type { SigningKeyRotation, SigningKeyStore } from '#signing/signing-key';
import type { PasswordHashing } from '#people/password-hashing';

/** The stores that administrative commands work on, beside a running server or without one. */
export interface Stores extends Omit<AdministrationPorts, 'clock' | 'refusals'> {
  readonly audit: AuditLog;
  readonly signingKeys: SigningKeyStore & SigningKeyRotation;
  /** Writes everything to a new file, `EEXIST` where there is one. */
  readonly backUp: (file: string) => void;
}

export interface CommandPorts {
  readonly stores: Stores;
  readonly clock: Clock;
  /** Writes a line to stdout. */
  readonly out: (line: string) => void;
  /** A new password, typed twice on a terminal or piped in once. */
  readonly readPassword: () => Promise<{ password: string; repeated: string }>;
  readonly hashing: Pick<PasswordHashing, 'hash'>;
}

/** How a command is typed and told of. */
interface CommandFacts {
  readonly words: string;
  /** Names of the positional arguments, as the help shows them. */
  readonly positionals: readonly string[];
  readonly options: readonly Option[];
  readonly doc: string;
}

/** An administrative command: `latchkey-server client create …`. */
export interface Command extends CommandFacts {
  readonly run: (input: Input, ports: CommandPorts) => Promise<void>;
}

/** A backup, copied to where it will be needed and brought to the newest schema, that nobody uses yet. */
export interface StagedBackup {
  readonly stores: Pick<Stores, 'audit' | 'signingKeys'>;
  /** Ends what works once or for one browser; the count of sessions, and of links with invitations. */
  endWhatWasOpen(): Promise<{ readonly sessions: number; readonly links: number }>;
  /**
   * Lets it take the place of what is there.
   *
   * @returns where that is now, `undefined` where there was nothing
   * @throws {CommandError} while somebody uses what is there
   */
  place(): Promise<string | undefined>;
  /** Removes it unless it was placed. */
  discard(): Promise<void>;
}

/** What a command on the data folder itself works with, as no store may be open there. */
export interface FolderPorts {
  /** @throws {CommandError} when `file` is no backup */
  readonly stage: (file: string, dataDir: string) => Promise<StagedBackup>;
  /** Whether somebody keeps something there already. */
  readonly isInUse: (dataDir: string) => boolean;
  readonly clock: Clock;
  readonly out: (line: string) => void;
  /** Asks for a secret by these words, or takes what is piped in. */
  readonly readSecret: (prompt: string, what: string) => Promise<string>;
}

/** A command on the data folder itself. */
export interface FolderCommand extends CommandFacts {
  readonly runOnFolder: (input: Input, ports: FolderPorts) => Promise<void>;
}
