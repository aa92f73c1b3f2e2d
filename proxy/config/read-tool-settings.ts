import type { Problem } from './configuration-error.ts';
import type { ToolSettings } from './connection.ts';

export const changedToolModes = ['flag', 'withhold'] as const;

/** What an entry may say about tools, unread. */
export type ToolTexts = { allowTools?: unknown; denyTools?: unknown; changedTools?: unknown };

/**
 * Which tools an assistant may see. The environment (`LATCHKEY_ALLOW_TOOLS`, `LATCHKEY_DENY_TOOLS`,
 * `LATCHKEY_CHANGED_TOOLS`) wins over the entry, list by list.
 */
export function readToolSettings(
  texts: ToolTexts,
  { source, key }: { source: string; key: string },
  setting: (name: string) => string | undefined,
  problems: Problem[],
): ToolSettings {
  const complain = (name: string, problem: string) =>
    void problems.push({ source, key: `${key}.${name}`, problem });
  const list = (name: 'allowTools' | 'denyTools', variable: string): string[] | undefined => {
    const value = setting(variable)?.split(/[\s,]+/) ?? texts[name] ?? undefined;
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.every((one) => typeof one === 'string'))
      return value.filter(Boolean);
    complain(name, 'is not a list of names, in which * stands for anything');
    return undefined;
  };
  const allow = list('allowTools', 'LATCHKEY_ALLOW_TOOLS');
  const deny = list('denyTools', 'LATCHKEY_DENY_TOOLS');
  const mode = setting('LATCHKEY_CHANGED_TOOLS') ?? texts.changedTools ?? undefined;
  const changed = changedToolModes.find((known) => known === mode);
  if (mode !== undefined && changed === undefined)
    complain('changedTools', `is neither ${changedToolModes.join(' nor ')}`);
  return {
    ...(allow && { allowTools: allow }),
    ...(deny && { denyTools: deny }),
    ...(changed && { changedTools: changed }),
  };
}
