import { accessRequestCommands } from '#admin/access-requests';
import { agentCommands } from '#admin/agents';
import { attentionCommands } from '#admin/attention';
import { auditCommands } from '#admin/audit';
import { callCommands } from '#admin/call-commands';
import { contentCommands } from '#admin/call-contents';
import { clientSecretCommands } from '#admin/client-secrets';
import { clientCommands, clientRevokeCommand } from '#admin/clients';
import { collectionCommands } from '#admin/collection-commands';
import type { Command } from '#admin/command';
import { domainCommands } from '#admin/domains';
import { deploymentCommands } from '#admin/deployment-commands';
import { deviceCommands } from '#admin/devices';
import { grantCommands } from '#admin/grants';
import { groupCommands } from '#admin/group-commands';
import { serverSetGroups } from '#admin/server-access';
import { assertionCommands } from '#admin/identity-assertions';
import { workloadCommands } from '#admin/workloads';
import { providerCommands } from '#admin/identity-provider-commands';
import { invitationCommands } from '#admin/invitation-commands';
import { keyCommands } from '#admin/keys';
import { leaverCommands } from '#admin/leavers';
import { mailCommands } from '#admin/mail-commands';
import { noticeCommands } from '#admin/notices';
import { organizationCommands } from '#admin/organizations';
import { offboardCommand } from '#admin/offboarding';
import { outboundCommands } from '#admin/outbound';
import { personCommands } from '#admin/people';
import { leaveCommand, removeCommand } from '#admin/person-removal';
import { pseudonymizeCommand } from '#admin/pseudonyms';
import {
  serverCreateCommand,
  serverDeleteCommand,
  serverDisableCommand,
  serverEnableCommand,
  serverHideToolsCommand,
  serverLimitCommand,
  serverListCommand,
  serverUpdateCommand,
} from '#admin/server-commands';
import { searchCommands } from '#admin/search';
import { scimCommands } from '#admin/scim';
import { tokenCommands } from '#admin/tokens';
import { toolCommands } from '#admin/tool-commands';
import {
  connectionEnd,
  connectionList,
  serverSetAccess,
  serverShowAccess,
} from '#admin/upstream-access-commands';
import {
  serverListHeaders,
  serverRemoveHeader,
  serverRestoreHeader,
  serverSetHeader,
} from '#admin/upstream-header-commands';
import { usageCommands } from '#admin/usage';
import { userCommands } from '#admin/users';
import { webhookCommands } from '#admin/webhooks';
import { backup, type FolderCommand, restore } from './backup-commands.ts';
import { doctor } from './doctor.ts';
import { withRemedies } from './remedies.ts';
import { migrateCommand } from './migrate-command.ts';
import { signingKeyRotate } from './signing-key-commands.ts';

const administration = withRemedies([
  ...organizationCommands,
  ...attentionCommands,
  ...searchCommands,
  serverCreateCommand,
  serverListCommand,
  serverUpdateCommand,
  serverHideToolsCommand,
  serverLimitCommand,
  serverDisableCommand,
  serverEnableCommand,
  serverSetGroups,
  contentCommands.server,
  serverSetAccess,
  serverShowAccess,
  serverSetHeader,
  serverListHeaders,
  serverRestoreHeader,
  serverRemoveHeader,
  connectionList,
  connectionEnd,
  serverDeleteCommand,
  ...collectionCommands,
  ...deploymentCommands,
  ...toolCommands,
  ...clientCommands,
  ...clientSecretCommands,
  clientRevokeCommand,
  ...workloadCommands,
  ...keyCommands,
  ...agentCommands,
  userCommands.create,
  userCommands.list,
  ...personCommands,
  leaveCommand,
  offboardCommand,
  pseudonymizeCommand,
  userCommands.resetLink,
  removeCommand,
  ...invitationCommands,
  ...groupCommands,
  ...accessRequestCommands,
  ...providerCommands,
  ...assertionCommands,
  ...domainCommands,
  ...scimCommands,
  ...leaverCommands,
  ...grantCommands,
  ...deviceCommands,
  ...tokenCommands,
  ...auditCommands,
  ...callCommands,
  contentCommands.call,
  ...usageCommands,
  ...webhookCommands,
  ...mailCommands,
  ...noticeCommands,
  ...outboundCommands,
  signingKeyRotate,
  backup,
]);

/** Every administrative command, in the order of the help. */
export const commands: readonly (Command | FolderCommand)[] = [
  ...administration,
  restore,
  migrateCommand,
  doctor,
];
