import { resolve } from 'node:path';
import type { AccountsDoor } from '#auth/accounts-door';
import type { OwnMachine } from '#auth/own-machine';
import type { Options, OptionTexts } from '#config/options';

export type AssistantPorts = {
  machine: OwnMachine;
  options: Options;
  /** The options as they were given, which an assistant has to hand on. */
  given: OptionTexts;
};

export type AssistantPart = Pick<
  AccountsDoor,
  'assistants' | 'install' | 'uninstall' | 'importable' | 'import'
>;

/** The part of the door that is about assistants' own files. */
export function openAssistants({ machine, options, given }: AssistantPorts): AssistantPart {
  const { config: _, ...ownOptions } = options;
  return {
    async assistants() {
      const { assistantViews } = await import('#config/assistant-views');
      return assistantViews(machine);
    },
    async install(assistant, name, how) {
      const [{ checkRegistered, installLaunch }, { assistantFile }, { launchEnvironment }] =
        await Promise.all([
          import('#config/install-launch'),
          import('#config/assistant-file'),
          import('#config/launch-environment'),
        ]);
      await checkRegistered(name, ownOptions, machine);
      const target = assistantFile(assistant, undefined, machine);
      const launchEnv = launchEnvironment(ownOptions, given, machine);
      const replace = how?.replace ?? false;
      return installLaunch(name, target, {
        options: ownOptions,
        env: launchEnv,
        machine,
        replace,
      });
    },
    async uninstall(assistant, name) {
      const [{ uninstallLaunch }, { assistantFile }] = await Promise.all([
        import('#config/uninstall-launch'),
        import('#config/assistant-file'),
      ]);
      const target = assistantFile(assistant, undefined, machine);
      const done = await uninstallLaunch(name, target, ownOptions, machine);
      return { file: target.file, ...done };
    },
    async importable(assistant) {
      const { importableEntries } = await import('#config/importable-entries');
      return importableEntries(assistant, ownOptions, machine);
    },
    async import(file, entry) {
      const { importEntry } = await import('#config/import-entry');
      return importEntry(resolve(file), entry, ownOptions, given, machine);
    },
  };
}
