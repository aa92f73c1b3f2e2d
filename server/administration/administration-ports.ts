import type { AuditLog, AuditReader } from '#audit/audit-log';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#clock/clock';
import type { ApiKeyStore } from '#credentials/api-key';
import type { ClientDirectory } from '#credentials/client-directory';
import type { ClientSecretStore } from '#credentials/client-secret-store';
import type { KeyDirectory } from '#credentials/key-directory';
import type { OAuthClientStore } from '#credentials/oauth-client';
import type { PersonalTokenStore } from '#credentials/personal-token';
import type { AgentDirectory } from '#organizations/agent-directory';
import type { AgentStore } from '#organizations/agent-store';
import type { OrganizationDirectory } from '#organizations/organization-directory';
import type { OrganizationStore } from '#organizations/organization-store';
import type { ServerDirectory } from '#organizations/server-directory';
import type { GrantDirectory } from '#oauth/grant-directory';
import type { GrantStore } from '#oauth/grant-store';
import type { ConsentStore } from '#oauth/consent-store';
import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import type {
  GroupMappingStore,
  GroupMemberStore,
  GroupStore,
  ServerGroupStore,
} from '#people/group-store';
import type { IdentityStore } from '#people/identity-store';
import type { InvitationStore } from '#people/invitation-store';
import type { MembershipStore } from '#people/membership-store';
import type { OneTimeLinkStore } from '#people/one-time-link-store';
import type { PasskeyStore } from '#people/passkey-store';
import type { PasswordStore } from '#people/password-store';
import type { SessionStore } from '#people/session-store';
import type { TotpStore } from '#people/totp-store';
import type { UserStore } from '#people/user';
import type { ToolDefinitionStore } from '#tools/tool-definition-store';
import type { UpstreamAccessStore } from '#upstream-access/upstream-access';
import type {
  UpstreamConnectionDirectory,
  UpstreamConnectionStore,
} from '#upstream-access/upstream-connection';
import type { UpstreamSetup } from '#upstream-access/upstream-setup';
import type { WebhookStore } from '#webhooks/webhook';
import type { WebhookSetup } from '#webhooks/webhook-setup';

/** What administering keeps and reads. */
export interface AdministrationStores {
  readonly organizations: OrganizationStore;
  readonly organizationDirectory: OrganizationDirectory;
  readonly serverDirectory: ServerDirectory;
  readonly definitions: Pick<ToolDefinitionStore, 'of' | 'accept'>;
  readonly agents: AgentStore;
  readonly agentDirectory: AgentDirectory;
  readonly clients: OAuthClientStore;
  readonly clientDirectory: ClientDirectory;
  readonly clientSecrets: ClientSecretStore;
  readonly keys: ApiKeyStore;
  readonly keyDirectory: KeyDirectory;
  readonly personalTokens: PersonalTokenStore;
  readonly users: UserStore;
  readonly passwords: Pick<PasswordStore, 'set' | 'hashOf'>;
  readonly links: Pick<OneTimeLinkStore, 'add'>;
  readonly memberships: MembershipStore;
  readonly groups: GroupStore;
  readonly groupMembers: Pick<GroupMemberStore, 'list' | 'add' | 'remove'>;
  readonly groupMappings: GroupMappingStore;
  readonly serverGroups: Pick<ServerGroupStore, 'of' | 'set' | 'mayUse'>;
  readonly invitations: Pick<InvitationStore, 'add' | 'list' | 'revoke'>;
  readonly settings: OrganizationSettingsStore;
  readonly passkeys: Pick<PasskeyStore, 'list' | 'remove'>;
  readonly totps: Pick<TotpStore, 'remove'>;
  readonly identities: Pick<IdentityStore, 'unlinkAll'>;
  readonly sessions: Pick<SessionStore, 'endAll'>;
  readonly grants: Pick<GrantStore, 'byId' | 'revoke'>;
  readonly grantDirectory: GrantDirectory;
  readonly consents: Pick<ConsentStore, 'forget'>;
  readonly upstreamAccesses: UpstreamAccessStore;
  readonly upstreamConnections: Pick<UpstreamConnectionStore, 'of'>;
  readonly upstreamConnectionDirectory: UpstreamConnectionDirectory;
  readonly webhooks: WebhookStore;
  readonly auditReader: AuditReader;
  readonly audit: Pick<AuditLog, 'append'>;
}

/** What administering stands on: the stores, as `openStores` gives them, and the clock. */
export interface AdministrationPorts extends AdministrationStores {
  /**
   * Does all of `work` or, when it rejects, nothing of it: what it reads and writes through its stores is one
   * transaction, and no other process writes in between. Nothing but these stores may be waited for inside.
   */
  readonly together: <Result>(
    work: (stores: AdministrationStores) => Promise<Result>,
  ) => Promise<Result>;
  readonly upstreamSetup: UpstreamSetup;
  readonly webhookSetup: WebhookSetup;
  /** For what can be tried without end. */
  readonly refusals: RefusalLog;
  readonly clock: Clock;
}
