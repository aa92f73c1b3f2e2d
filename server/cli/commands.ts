import { agentCreate, agentList, agentRevoke } from './agent-commands.ts';
import { clientCreate, clientList, clientRevoke } from './client-commands.ts';
import type { Command } from './command.ts';
import { keyCreate, keyList, keyRevoke } from './key-commands.ts';
import { organizationCreate, serverCreate, serverHideTools } from './organization-commands.ts';
import { signingKeyRotate } from './signing-key-commands.ts';

import { userCreate, userList, userRemove, userResetLink } from './user-commands.ts';

/** Every administrative command, in the order of the help. */
export const commands: readonly Command[] = [
  organizationCreate,
  serverCreate,
  serverHideTools,
  clientCreate,
  clientList,
  clientRevoke,
  keyCreate,
  keyList,
  keyRevoke,
  agentCreate,
  agentList,
  agentRevoke,
  userCreate,
  userList,
  userResetLink,
  userRemove,
  signingKeyRotate,
];
