import { assistants } from '#config/assistants';
import { findDocuments, type ReadText } from '#config/find-entry';
import type { UserHost } from '#host';
import { ok, warn, type Check, type Finding } from './finding.ts';

/** Where VS Code keeps its version, on the systems that have one place for it. */
const productFiles = [
  '/usr/share/code/resources/app/product.json',
  '/opt/visual-studio-code/resources/app/product.json',
  '/Applications/Visual Studio Code.app/Contents/Resources/app/product.json',
];

/** Which assistants are configured here, and in which version, where a file tells. */
export function assistantCheck(host: UserHost, readText: ReadText): Check {
  return {
    name: 'assistants',
    async run() {
      const findings: Finding[] = [];
      for (const [name, { title, file }] of Object.entries(assistants)) {
        const path = file(host);
        let text: string | undefined;
        try {
          text = readText(path);
        } catch {
          findings.push(warn('assistants', `${title}: ${path} cannot be read`, 'check its rights'));
          continue;
        }
        if (text === undefined) continue;
        const [document] = await findDocuments([path], readText);
        if (document === undefined)
          findings.push(
            warn(
              'assistants',
              `${title}: ${path} is not JSON`,
              'look for a missing comma or quote',
            ),
          );
        else {
          const version = name === 'vscode' ? vscodeVersion(readText) : ownVersion(document);
          findings.push(ok('assistants', `${title}${version && ` ${version}`}: ${path}`));
        }
      }
      if (findings.length > 0) return findings;
      return [warn('assistants', 'none is configured here', 'latchkey install ASSISTANT NAME')];
    },
  };
}

/** Claude Code writes the version that last greeted its user. */
function ownVersion(document: unknown): string {
  const { lastOnboardingVersion: version } = membersOf(document);
  return typeof version === 'string' && /^[\w.-]{1,40}$/.test(version) ? version : '';
}

function vscodeVersion(readText: ReadText): string {
  for (const path of productFiles) {
    try {
      const { version } = membersOf(JSON.parse(readText(path) ?? 'null'));
      if (typeof version === 'string') return version;
    } catch {
      continue; // Another user's, or not what we took it for.
    }
  }
  return '';
}

function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
