import { agentKeyCreate, agentKeyRevoke } from './agent-key-operations.ts';
import { agentCreate, agentList, agentRead, agentRevoke } from './agent-operations.ts';
import {
  clientCreate,
  clientList,
  clientRead,
  clientRevoke,
  clientUpdate,
} from './client-operations.ts';
import { clientRotate, clientSecretList, clientSecretRevoke } from './client-secret-operations.ts';
import { auditExport, auditRead } from './audit-operations.ts';
import { grantList, grantRead, grantWithdraw } from './grant-operations.ts';
import {
  groupAddMember,
  groupMap,
  groupRemoveMember,
  groupUnmap,
} from './group-member-operations.ts';
import { groupCreate, groupDelete, groupList, groupRead, groupRename } from './group-operations.ts';
import { invitationCreate, invitationList, invitationRevoke } from './invitation-operations.ts';
import { keyCreate, keyList, keyRead, keyRevoke } from './key-operations.ts';
import type { Operation } from './operation.ts';
import {
  organizationCreate,
  organizationList,
  organizationRead,
  organizationUpdate,
} from './organization-operations.ts';
import { registeredClientRevoke } from './registered-client-operations.ts';
import {
  ownershipTransfer,
  personList,
  personRead,
  personRemove,
  personSetRole,
  secondFactorReset,
  sessionsEnd,
} from './people-operations.ts';
import { serverGroupsRead, serverGroupsSet } from './server-group-operations.ts';
import { settingsRead, settingsUpdate } from './settings-operations.ts';
import {
  serverCreate,
  serverDelete,
  serverDisable,
  serverEnable,
  serverList,
  serverRead,
  serverUpdate,
} from './server-operations.ts';
import {
  connectionEnd,
  connectionList,
  ownConnectionEnd,
  ownConnectionRead,
} from './upstream-connection-operations.ts';
import { accessRead, accessSet } from './upstream-access-operations.ts';
import {
  headerForgetPrevious,
  headerList,
  headerRemove,
  headerRestore,
  headerSet,
} from './upstream-header-operations.ts';
import { tokenCreate, tokenList, tokenRevoke } from './token-operations.ts';
import { toolAccept, toolList } from './tool-operations.ts';
import {
  webhookCreate,
  webhookList,
  webhookRead,
  webhookRemove,
  webhookUpdate,
} from './webhook-operations.ts';
import {
  webhookDisable,
  webhookEnable,
  webhookRotate,
  webhookTest,
} from './webhook-state-operations.ts';
import { userCreate, userRemove, userResetLink } from './user-operations.ts';

/** Every operation, in the order of the API's document. */
export const operations: readonly Operation[] = [
  organizationList,
  organizationCreate,
  organizationRead,
  organizationUpdate,
  serverList,
  serverCreate,
  serverRead,
  serverUpdate,
  serverDisable,
  serverEnable,
  serverDelete,
  toolList,
  toolAccept,
  clientList,
  clientCreate,
  clientRead,
  clientUpdate,
  clientRevoke,
  clientSecretList,
  clientRotate,
  clientSecretRevoke,
  registeredClientRevoke,
  keyList,
  keyCreate,
  keyRead,
  keyRevoke,
  agentList,
  agentCreate,
  agentRead,
  agentRevoke,
  agentKeyCreate,
  agentKeyRevoke,
  tokenList,
  tokenCreate,
  tokenRevoke,
  serverGroupsRead,
  serverGroupsSet,
  accessRead,
  accessSet,
  headerList,
  headerSet,
  headerRestore,
  headerForgetPrevious,
  headerRemove,
  connectionList,
  connectionEnd,
  ownConnectionRead,
  ownConnectionEnd,
  personList,
  personRead,
  personSetRole,
  personRemove,
  ownershipTransfer,
  secondFactorReset,
  sessionsEnd,
  invitationList,
  invitationCreate,
  invitationRevoke,
  groupList,
  groupRead,
  groupCreate,
  groupRename,
  groupDelete,
  groupAddMember,
  groupRemoveMember,
  groupMap,
  groupUnmap,
  settingsRead,
  settingsUpdate,
  grantList,
  grantRead,
  grantWithdraw,
  auditRead,
  auditExport,
  webhookList,
  webhookCreate,
  webhookRead,
  webhookUpdate,
  webhookRotate,
  webhookTest,
  webhookEnable,
  webhookDisable,
  webhookRemove,
  userCreate,
  userRemove,
  userResetLink,
];
