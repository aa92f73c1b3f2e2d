import type { AuditLog } from '#audit/audit-log';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#clock/clock';
import type { OrganizationStore } from '#organizations/organization-store';
import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import type { AccountGrant } from '#pages/account-grants';
import type { AttemptStore } from '#people/attempt-store';
import type { ChallengeStore } from '#people/challenge-store';
import type { EndGrants } from '#people/end-grants';
import type { IdentityProvider } from '#people/identity-provider';
import type { GroupMemberStore } from '#people/group-store';
import type { IdentityStore } from '#people/identity-store';
import type { InvitationStore } from '#people/invitation-store';
import type { KnownBrowserStore } from '#people/known-browser-store';
import type { OneTimeLinkStore } from '#people/one-time-link-store';
import type { PasskeyStore } from '#people/passkey-store';
import type { PasswordHashing } from '#people/password-hashing';
import type { PasswordStore } from '#people/password-store';
import type { Sealing } from '#people/sealing';
import type { SessionStore } from '#people/session-store';
import type { RecoveryCodeStore, TotpStore } from '#people/totp-store';
import type { UserStore } from '#people/user';

/** What the pages of people keep. */
interface PeopleStores {
  readonly users: UserStore;
  readonly passwords: PasswordStore;
  readonly sessions: SessionStore;
  readonly links: OneTimeLinkStore;
  readonly passkeys: PasskeyStore;
  readonly attempts: AttemptStore;
  readonly knownBrowsers: KnownBrowserStore;
  readonly totps: TotpStore;
  readonly recoveryCodes: RecoveryCodeStore;
  readonly challenges: ChallengeStore;
  readonly identities: IdentityStore;
  readonly groupMembers: Pick<GroupMemberStore, 'setProvided'>;
  readonly invitations: Pick<InvitationStore, 'peek' | 'take'>;
  readonly audit: AuditLog;
  readonly organizations: Pick<OrganizationStore, 'add' | 'byName'>;
  readonly settings: Pick<OrganizationSettingsStore, 'of'>;
  readonly endGrants: EndGrants;
}

/** What the pages of people stand on. */
export interface PeoplePorts extends PeopleStores {
  readonly sealing: Sealing;
  readonly refusals: RefusalLog;
  readonly hashing: PasswordHashing;
  /** All that `work` does through these stores is one transaction; inside it nothing else may be waited for. */
  readonly together: <Result>(work: (stores: PeopleStores) => Promise<Result>) => Promise<Result>;
  /** What the person allowed applications to do; without it the account page has no such section. */
  readonly grantsOf?: (userId: string) => Promise<AccountGrant[]>;
  /** Single sign-on, where it is configured. */
  readonly identityProvider: IdentityProvider | undefined;
  readonly clock: Clock;
}

export interface PeopleRoutesOptions {
  readonly base: string;
  /** What the first owner owns; asked for where it is `undefined`. */
  readonly firstOrganization: string | undefined;
  readonly people: PeoplePorts;
}
