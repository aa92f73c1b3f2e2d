import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { AgentError } from '#agent/agent-error';
import { serviceFile, serviceMark } from '#agent/service-file';
import { lastingProgram } from '#config/lasting-program';
import { npxHint } from '#config/own-package';
import { UsageError } from '#config/usage-error';
import { agentPlan } from './agent-plan.ts';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

const machineConfiguration = '/etc/latchkey/agent.json';

/** `latchkey agent install` and `uninstall`. A file that is not ours is left alone. */
export async function agentService(
  what: 'install' | 'uninstall',
  input: CommandInput,
  machine: Machine,
): Promise<void> {
  const { platform, home, launcher } = machine;
  if (platform === 'win32')
    throw new UsageError('on Windows there is no service yet', 'let the task scheduler start it');
  const user = input.flags.has('user');
  const plan = what === 'install' ? agentPlan(input, machine) : undefined;
  const keyFile = plan?.keyFile;
  if (plan && !user && keyFile === undefined)
    throw new AgentError('service', 'a service of the machine has no keychain', {
      remedy: 'name its key with --key-file, or add --user for a service of yours',
    });
  // The machine's service has no home of a person's.
  const named = input.flags.has('config') || machine.options(input.options).config !== undefined;
  const file = user || named ? plan?.configurationFile : machineConfiguration;
  const command = [
    ...('program' in launcher
      ? [lastingProgram(launcher.program)]
      : [launcher.node, launcher.script]),
    'agent',
    ...(plan && file ? ['--server-url', plan.base, '--config', file] : []),
    ...(user && keyFile !== undefined ? ['--key-file', keyFile] : []),
  ];
  const kind = platform === 'darwin' ? 'launchd' : 'systemd';
  const { path, text, next, newKey } = serviceFile({
    kind,
    user,
    home,
    command,
    base: plan?.base ?? '',
    ...(keyFile !== undefined && { keyFile }),
  });
  if (what === 'uninstall') return remove(path, kind, user, machine);
  if (input.flags.has('dry-run')) {
    machine.tell(`${path}:`);
    for (const line of text.trimEnd().split('\n')) machine.say(line);
    return;
  }
  const before = await existing(path);
  if (before !== undefined && !before.includes(serviceMark)) throw foreign(path);
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  } catch (error) {
    throw unwritable(path, error);
  }
  machine.say(`written: ${path}`);
  const hint = npxHint(launcher, machine);
  if (hint !== undefined) machine.tell(`hint: ${hint}`);
  for (const line of next) machine.tell(`next: ${line}`);
  if (newKey !== undefined) machine.tell(`hint: ${newKey}`);
}

async function remove(
  path: string,
  kind: 'systemd' | 'launchd',
  user: boolean,
  machine: Machine,
): Promise<void> {
  const before = await existing(path);
  if (before === undefined) return machine.say(`there is no service: ${path}`);
  if (!before.includes(serviceMark)) throw foreign(path);
  await rm(path).catch((error: unknown) => {
    throw unwritable(path, error);
  });
  machine.say(`removed: ${path}`);
  const manager = user ? 'systemctl --user' : 'systemctl';
  machine.tell(
    kind === 'systemd'
      ? `next: ${manager} stop latchkey-agent, then ${manager} daemon-reload`
      : `next: launchctl bootout ${user ? 'gui/$(id -u)' : 'system'}/latchkey.agent`,
  );
}

async function existing(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw unwritable(path, error);
  });
}

function foreign(path: string): AgentError {
  return new AgentError('service', `${path} is not of our making`, {
    remedy: 'move it away, then repeat',
  });
}

function unwritable(path: string, cause: unknown): AgentError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason';
  return new AgentError('service', `${path} cannot be changed (${code})`, {
    remedy: code === 'EACCES' ? 'repeat as root, or add --user' : '',
    cause,
  });
}
