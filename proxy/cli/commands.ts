import { addCommand } from './add-command.ts';
import { agentCommand } from './agent-command.ts';
import type { Command } from './command.ts';
import { completionCommand } from './completion-command.ts';
import { connectCommand } from './connect-command.ts';
import { importCommand } from './import-command.ts';
import { doctorCommand } from './doctor-command.ts';
import { installCommand } from './install-command.ts';
import { loginCommand } from './login-command.ts';
import { logoutCommand } from './logout-command.ts';
import { namesCommand } from './names-command.ts';
import { removeCommand } from './remove-command.ts';
import { statusCommand } from './status-command.ts';
import { uninstallCommand } from './uninstall-command.ts';
import { toolsCommand } from './tools-command.ts';

/** Every command, in the order of the help. Without a command's name, `connect` is meant. */
export const commands: readonly Command[] = [
  connectCommand,
  addCommand,
  removeCommand,
  importCommand,
  installCommand,
  uninstallCommand,
  loginCommand,
  logoutCommand,
  statusCommand,
  toolsCommand,
  doctorCommand,
  agentCommand,
  completionCommand,
  namesCommand,
];
