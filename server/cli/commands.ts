import { agentCreate, agentCreateKey, agentList, agentRevoke } from './agent-commands.ts';
import { clientCreate, clientList, clientRevoke, clientRotate } from './client-commands.ts';
import { auditExport, auditList } from './audit-commands.ts';
import { backup, restore } from './backup-commands.ts';
import type { Command, FolderCommand } from './command.ts';
import { consentList, consentWithdraw } from './consent-commands.ts';
import {
  groupAdd,
  groupCreate,
  groupDelete,
  groupList,
  groupMap,
  groupTakeOut,
  groupUnmap,
  serverSetGroups,
} from './group-commands.ts';
import { invitationCreate, invitationList, invitationRevoke } from './invitation-commands.ts';
import { keyCreate, keyList, keyRevoke } from './key-commands.ts';
import {
  organizationCreate,
  organizationList,
  organizationUpdate,
} from './organization-commands.ts';
import {
  userEndSessions,
  userLeave,
  userMembers,
  userResetSecondFactor,
  userSetRole,
} from './person-commands.ts';
import {
  serverCreate,
  serverDelete,
  serverDisable,
  serverEnable,
  serverHideTools,
  serverList,
  serverUpdate,
} from './server-commands.ts';
import { serverLimit } from './server-limit-command.ts';
import { signingKeyRotate } from './signing-key-commands.ts';
import {
  connectionEnd,
  connectionList,
  serverSetAccess,
  serverShowAccess,
} from './upstream-access-commands.ts';
import {
  serverListHeaders,
  serverRemoveHeader,
  serverRestoreHeader,
  serverSetHeader,
} from './upstream-header-commands.ts';
import { tokenCreate, tokenList, tokenRevoke } from './token-commands.ts';
import { serverAcceptTools, serverTools } from './tool-commands.ts';
import { userCreate, userList, userRemove, userResetLink } from './user-commands.ts';
import {
  webhookCreate,
  webhookDisable,
  webhookEnable,
  webhookList,
  webhookRemove,
  webhookRotate,
  webhookTest,
  webhookUpdate,
} from './webhook-commands.ts';

/** Every administrative command, in the order of the help. */
export const commands: readonly (Command | FolderCommand)[] = [
  organizationCreate,
  organizationList,
  organizationUpdate,
  serverCreate,
  serverList,
  serverUpdate,
  serverHideTools,
  serverTools,
  serverAcceptTools,
  serverLimit,
  serverDisable,
  serverEnable,
  serverSetGroups,
  serverSetAccess,
  serverShowAccess,
  serverSetHeader,
  serverListHeaders,
  serverRestoreHeader,
  serverRemoveHeader,
  connectionList,
  connectionEnd,
  serverDelete,
  clientCreate,
  clientList,
  clientRotate,
  clientRevoke,
  keyCreate,
  keyList,
  keyRevoke,
  agentCreate,
  agentCreateKey,
  agentList,
  agentRevoke,
  userCreate,
  userList,
  userMembers,
  userSetRole,
  userLeave,
  userEndSessions,
  userResetSecondFactor,
  userResetLink,
  userRemove,
  invitationCreate,
  invitationList,
  invitationRevoke,
  groupCreate,
  groupList,
  groupAdd,
  groupTakeOut,
  groupMap,
  groupUnmap,
  groupDelete,
  consentList,
  consentWithdraw,
  tokenCreate,
  tokenList,
  tokenRevoke,
  auditList,
  auditExport,
  webhookCreate,
  webhookList,
  webhookUpdate,
  webhookRotate,
  webhookTest,
  webhookEnable,
  webhookDisable,
  webhookRemove,
  signingKeyRotate,
  backup,
  restore,
];
