import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { ApiKeyStore } from '#credentials/api-key';
import type { OAuthClientStore } from '#credentials/oauth-client';
import type { Input } from '#config/read-options';
import type { Option } from '#config/option';
import type { SigningKeyRotation, SigningKeyStore } from '#signing/signing-key';
import type { AgentStore } from '#organizations/agent-store';
import type { OrganizationStore } from '#organizations/organization-store';
import type { OneTimeLinkStore } from '#people/one-time-link-store';
import type { PasswordHashing } from '#people/password-hashing';
import type { PasswordStore } from '#people/password-store';
import type { UserStore } from '#people/user';

/** The stores that administrative commands work on, beside a running server or without one. */
export interface Stores {
  readonly organizations: OrganizationStore;
  readonly agents: AgentStore;
  readonly clients: OAuthClientStore;
  readonly keys: ApiKeyStore;
  readonly users: UserStore;
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
