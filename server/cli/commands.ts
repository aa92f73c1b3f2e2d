import { agentCreate, agentCreateKey, agentList, agentRevoke } from './agent-commands.ts';
import { clientCreate, clientList, clientRevoke, clientRotate } from './client-commands.ts';
import { backup, restore } from './backup-commands.ts';
import type { Command, FolderCommand } from './command.ts';
import { keyCreate, keyList, keyRevoke } from './key-commands.ts';
import { organizationCreate, organizationList } from './organization-commands.ts';
import {
  serverCreate,
  serverDelete,
  serverDisable,
  serverEnable,
  serverHideTools,
  serverList,
  serverUpdate,
} from './server-commands.ts';
import { signingKeyRotate } from './signing-key-commands.ts';
import { tokenCreate, tokenList, tokenRevoke } from './token-commands.ts';
import { userCreate, userList, userRemove, userResetLink } from './user-commands.ts';

/** Every administrative command, in the order of the help. */
export const commands: readonly (Command | FolderCommand)[] = [
  organizationCreate,
  organizationList,
  serverCreate,
  serverList,
  serverUpdate,
  serverHideTools,
  serverDisable,
  serverEnable,
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
  userResetLink,
  userRemove,
  tokenCreate,
  tokenList,
  tokenRevoke,
  signingKeyRotate,
  backup,
  restore,
];
