import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { agentDirectory } from '#store/agent-directory';
import { agentStore } from '#store/agent-store';
import { assertionStore } from '#store/assertion-store';
import { attemptStore } from '#store/attempt-store';
import { auditLog } from '#store/audit-log';
import { authorizationCodeStore } from '#store/authorization-code-store';
import { challengeStore } from '#store/challenge-store';
import { clientDirectory } from '#store/client-directory';
import { clientDocumentStore } from '#store/client-document-store';
import { clientSecretStore } from '#store/client-secret-store';
import { clientStore } from '#store/client-store';
import { clientUseStore } from '#store/client-use-store';
import { consentStore } from '#store/consent-store';
import { endGrants } from '#store/end-grants';
import { grantDirectory } from '#store/grant-directory';
import { grantStore } from '#store/grant-store';
import { groupMappingStore } from '#store/group-mapping-store';
import { groupMemberStore } from '#store/group-member-store';
import { groupStore } from '#store/group-store';
import { identityStore } from '#store/identity-store';
import { inTransaction } from '#store/in-transaction';
import { keyDirectory } from '#store/key-directory';
import { invitationStore } from '#store/invitation-store';
import { keyStore } from '#store/key-store';
import { knownBrowserStore } from '#store/known-browser-store';
import { membershipStore } from '#store/membership-store';
import { migrate } from '#store/migrate';
import { oneTimeLinkStore } from '#store/one-time-link-store';
import { organizationDirectory } from '#store/organization-directory';
import { organizationSettingsStore } from '#store/organization-settings-store';
import { organizationStore } from '#store/organization-store';
import { passkeyStore } from '#store/passkey-store';
import { passwordStore } from '#store/password-store';
import { pendingRequestStore } from '#store/pending-request-store';
import { recoveryCodeStore } from '#store/recovery-code-store';
import { personalTokenStore } from '#store/personal-token-store';
import { refreshTokenStore } from '#store/refresh-token-store';
import { revokedTokenStore } from '#store/revoked-token-store';
import { serverDirectory } from '#store/server-directory';
import { rollupReader } from '#store/rollup-reader';
import { rollupStore } from '#store/rollup-store';
import { serverGroupStore } from '#store/server-group-store';
import { sessionStore } from '#store/session-store';
import { signingKeyStore } from '#store/signing-key-store';
import { openSqlite, type SqliteStore } from '#store/sqlite/open-sqlite';
import { inQuickTransaction } from '#store/sqlite/quick-transaction';
import { writeBackup } from '#store/sqlite/write-backup';
import { toolDefinitionStore } from '#store/tool-definition-store';
import { totpStore } from '#store/totp-store';
import { subjectNames } from '#store/subject-names';
import { upstreamAccessStore } from '#store/upstream-access-store';
import {
  endedConnectionStore,
  upstreamConnectionDirectory,
  upstreamConnectionStore,
} from '#store/upstream-connection-store';
import { endedRegistrationStore } from '#store/upstream-registration-store';
import { usageStore } from '#store/usage-store';
import { userStore } from '#store/user-store';
import { webhookBacklog } from '#store/webhook-backlog';
import { webhookStore } from '#store/webhook-store';

/** The file in the data folder that everything is kept in. */
export const databaseName = 'latchkey.db';

/** Opens the database in `dataDir`, brought to the newest schema, and everything that is kept in it. */
export async function openStores(dataDir: string) {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const { db, connection } = openSqlite(join(dataDir, databaseName));
  await migrate(db);
  return {
    db,
    connection,
    ...storesOf(db),
    /** All that `work` does through its stores is one transaction; inside it nothing else may be waited for. */
    together: <Result>(work: (stores: SqlStores) => Promise<Result>) =>
      inTransaction(db, (transaction) => work(storesOf(transaction))),
    backUp: (file: string) => writeBackup(connection, file),
    close: () => db.destroy(),
  };
}

type SqlStores = ReturnType<typeof storesOf>;

/** Everything that is kept, through a connection or one transaction. */
function storesOf(db: SqliteStore['db']) {
  return {
    organizations: organizationStore(db),
    agents: agentStore(db),
    agentDirectory: agentDirectory(db),
    clients: clientStore(db),
    keys: keyStore(db),
    usage: usageStore(db, inQuickTransaction),
    organizationDirectory: organizationDirectory(db),
    serverDirectory: serverDirectory(db),
    clientDirectory: clientDirectory(db),
    clientSecrets: clientSecretStore(db),
    keyDirectory: keyDirectory(db),
    definitions: toolDefinitionStore(db),
    rollups: rollupStore(db, inQuickTransaction),
    personalTokens: personalTokenStore(db),
    clientUse: clientUseStore(db),
    rollupReader: rollupReader(db),
    subjectNames: subjectNames(db),
    signingKeys: signingKeyStore(db),
    revokedTokens: revokedTokenStore(db),
    settings: organizationSettingsStore(db),
    users: userStore(db),
    memberships: membershipStore(db),
    groups: groupStore(db),
    groupMembers: groupMemberStore(db),
    groupMappings: groupMappingStore(db),
    serverGroups: serverGroupStore(db),
    invitations: invitationStore(db),
    totps: totpStore(db),
    recoveryCodes: recoveryCodeStore(db),
    passwords: passwordStore(db),
    sessions: sessionStore(db),
    links: oneTimeLinkStore(db),
    passkeys: passkeyStore(db),
    attempts: attemptStore(db),
    knownBrowsers: knownBrowserStore(db),
    challenges: challengeStore(db),
    identities: identityStore(db),
    endGrants: endGrants(db),
    audit: auditLog(db),
    auditReader: auditLog(db),
    grants: grantStore(db),
    grantDirectory: grantDirectory(db),
    codes: authorizationCodeStore(db),
    refreshTokens: refreshTokenStore(db),
    consents: consentStore(db),
    pendingRequests: pendingRequestStore(db),
    assertions: assertionStore(db),
    documents: clientDocumentStore(db),
    upstreamAccesses: upstreamAccessStore(db),
    upstreamConnections: upstreamConnectionStore(db),
    upstreamConnectionDirectory: upstreamConnectionDirectory(db),
    endedConnections: endedConnectionStore(db),
    endedRegistrations: endedRegistrationStore(db),
    webhooks: webhookStore(db),
    backlog: webhookBacklog(db, inQuickTransaction),
  };
}

export type OpenStores = Awaited<ReturnType<typeof openStores>>;
