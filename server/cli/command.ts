import type { AdministrationPorts } from '#administration/administration-ports';
import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { Input } from '#config/read-options';
import type { Option } from '#config/option';
import type { SigningKeyRotation, SigningKeyStore } from '#signing/signing-key';
import type { OneTimeLinkStore } from '#people/one-time-link-store';
import type { PasswordHashing } from '#people/password-hashing';
import type { PasswordStore } from '#people/password-store';

/** The stores that administrative commands work on, beside a running server or without one. */
export interface Stores extends Omit<AdministrationPorts, 'clock'> {
  readonly passwords: PasswordStore;
  readonly links: OneTimeLinkStore;
  readonly audit: AuditLog;
  readonly signingKeys: SigningKeyStore & SigningKeyRotation;
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

/** An administrative command: `latchkey-server client create …`. */
export interface Command {
  readonly words: string;
  /** Names of the positional arguments, as the help shows them. */
  readonly positionals: readonly string[];
  readonly options: readonly Option[];
  readonly doc: string;
  readonly run: (input: Input, ports: CommandPorts) => Promise<void>;
}
