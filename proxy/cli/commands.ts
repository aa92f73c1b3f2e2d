import type { Command } from './command.ts';
import { connectCommand } from './connect.ts';
import { nearest } from 'latchkey-mcp/suggest';

/**
 * Every command, in the order of the help. Assistants start `connect`, the default command, many times a day, so the
 * other commands are loaded only when they are needed.
 */
const loaders: Readonly<Record<string, () => Promise<Command>>> = {
  setup: async () => (await import('./setup.ts')).setupCommand,
  connect: () => Promise.resolve(connectCommand),
  add: async () => (await import('./add.ts')).addCommand,
  remove: async () => (await import('./remove.ts')).removeCommand,
  rename: async () => (await import('./rename.ts')).renameCommand,
  rotate: async () => (await import('./rotate.ts')).rotateCommand,
  import: async () => (await import('./import.ts')).importCommand,
  install: async () => (await import('./install.ts')).installCommand,
  uninstall: async () => (await import('./install.ts')).uninstallCommand,
  login: async () => (await import('./login.ts')).loginCommand,
  logout: async () => (await import('./login.ts')).logoutCommand,
  servers: async () => (await import('./servers.ts')).serversCommand,
  devices: async () => (await import('./devices.ts')).devicesCommand,
  status: async () => (await import('./status.ts')).statusCommand,
  tools: async () => (await import('./tools.ts')).toolsCommand,
  doctor: async () => (await import('./doctor.ts')).doctorCommand,
  agent: async () => (await import('./agent.ts')).agentCommand,
  completion: async () => (await import('./completion.ts')).completionCommand,
  __names: async () => (await import('./completion.ts')).namesCommand,
};

/** The names of the commands in the help. */
const publicNames = Object.keys(loaders).filter((name) => !name.startsWith('__'));

/** The command of that name; `undefined` if there is none. */
export async function findCommand(name: string): Promise<Command | undefined> {
  return Object.hasOwn(loaders, name) ? loaders[name]?.() : undefined;
}

/** A hint for a misspelt command, such as `latchkey statsu`. */
export function meantCommand(word: string | undefined): string | undefined {
  const meant = word === undefined ? undefined : nearest(word, [...publicNames, 'version']);
  if ([word, meant].includes('version')) return 'did you mean latchkey --version?';
  return meant === undefined ? undefined : `did you mean latchkey ${meant}?`;
}

/** Every command, each followed by its subcommands. */
export async function allCommands(): Promise<Command[]> {
  const commands = await Promise.all(Object.values(loaders).map(async (load) => load()));
  return commands.flatMap((command) => [command].concat(command.subcommands ?? []));
}
