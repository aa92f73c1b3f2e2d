import { resolve } from 'node:path';
import type { AccountsService } from '#auth/accounts-service';
import type { AccountsHost } from '#auth/accounts-host';
import type { Options, OptionTexts } from '#config/options';

export type AssistantPorts = {
  host: AccountsHost;
  options: Options;
  /** The options as they were given, which an assistant has to hand on. */
  given: OptionTexts;
};

export type AssistantPart = Pick<
  AccountsService,
  'assistants' | 'install' | 'uninstall' | 'importable' | 'import'
>;

/** The part of the accounts service that is about the files of assistants. */
export function openAssistants({ host, options, given }: AssistantPorts): AssistantPart {
  const { config: _, ...ownOptions } = options;
  return {
    async assistants() {
      const { assistantViews } = await import('#config/assistant-views');
      return assistantViews(host);
    },
    async install(assistant, name, how) {
      const [{ checkRegistered, installLaunch }, { assistantFile }, { launchEnvironment }] =
        await Promise.all([
          import('#config/install'),
          import('#config/assistants'),
          import('#config/launch-entry'),
        ]);
      await checkRegistered(name, ownOptions, host);
      const target = assistantFile(assistant, undefined, host);
      const launchEnv = launchEnvironment(ownOptions, given, host);
      const replace = how?.replace ?? false;
      return installLaunch(name, target, {
        options: ownOptions,
        env: launchEnv,
        host,
        replace,
      });
    },
    async uninstall(assistant, name) {
      const [{ uninstallLaunch }, { assistantFile }] = await Promise.all([
        import('#config/install'),
        import('#config/assistants'),
      ]);
      const target = assistantFile(assistant, undefined, host);
      const done = await uninstallLaunch(name, target, ownOptions, host);
      return { file: target.file, ...done };
    },
    async importable(assistant) {
      const { importableEntries } = await import('#config/import-plan');
      return importableEntries(assistant, ownOptions, host);
    },
    async import(file, entry) {
      const { importEntry } = await import('#config/import-file');
      return importEntry(resolve(file), entry, ownOptions, given, host);
    },
  };
}
