import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { ApiKeyStore } from '#credentials/api-key';
import type { ClientDirectory } from '#credentials/client-directory';
import type { ClientSecretStore } from '#credentials/client-secret-store';
import type { KeyDirectory } from '#credentials/key-directory';
import type { OAuthClientStore } from '#credentials/oauth-client';
import type { PersonalTokenStore } from '#credentials/personal-token';
import type { AgentStore } from '#organizations/agent-store';
import type { OrganizationDirectory } from '#organizations/organization-directory';
import type { OrganizationStore } from '#organizations/organization-store';
import type { ServerDirectory } from '#organizations/server-directory';
import type { UserStore } from '#people/user';

/** What administering stands on: the stores, as `openStores` gives them, and the clock. */
export interface AdministrationPorts {
  readonly organizations: OrganizationStore;
  readonly organizationDirectory: OrganizationDirectory;
  readonly serverDirectory: ServerDirectory;
  readonly agents: AgentStore;
  readonly clients: OAuthClientStore;
  readonly clientDirectory: ClientDirectory;
  readonly clientSecrets: ClientSecretStore;
  readonly keys: ApiKeyStore;
  readonly keyDirectory: KeyDirectory;
  readonly personalTokens: PersonalTokenStore;
  readonly users: UserStore;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}
