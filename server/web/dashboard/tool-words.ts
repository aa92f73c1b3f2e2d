// Words for what a server offers: its kind, its hints, the state of its review, and why a caller may use it or not.

import type { ToolView } from '#admin/tools';
import type { RightsReason } from '#db/explained-rights';
import { allScopes } from '#model/scopes';
import type { Badge } from '#web/layout';

export const kindWords = {
  tool: 'Tool',
  prompt: 'Prompt',
  resource: 'Resource',
  template: 'Resource template',
  instructions: 'Instructions',
} as const satisfies Record<ToolView['kind'], string>;

/** The name to show for a definition: instructions have no name of their own. */
export function nameOf({ kind, name }: Pick<ToolView, 'kind' | 'name'>): string {
  return kind === 'instructions' ? 'the instructions' : name;
}

/**
 * The badge for a tool's hints, as assistants see them. Assistants use hints to decide whether to ask before each call, so a tool without
 * hints has a badge, too.
 */
export function hintBadge({ kind, shownHints }: Pick<ToolView, 'kind' | 'shownHints'>): Badge[] {
  if (kind !== 'tool') return [];
  const { readOnly = null, destructive = null } = shownHints ?? {};
  if (readOnly === true) return [{ text: 'Read-only', tone: 'plain' }];
  if (destructive === true) return [{ text: 'Destructive', tone: 'bad' }];
  if (readOnly === false || destructive === false) return [{ text: 'Writes', tone: 'care' }];
  return [{ text: 'Unknown', tone: 'care' }];
}

/** The badges beside the name of a definition that is not simply offered. */
export function stateBadges({
  status,
  isHidden,
  isWithheld,
  correction,
}: Pick<ToolView, 'status' | 'isHidden' | 'isWithheld' | 'correction'>): Badge[] {
  return [
    ...(isHidden ? [{ text: 'Hidden', tone: 'plain' } as const] : []),
    ...reviewBadges(status, isWithheld),
    ...(correction ? [{ text: 'Corrected', tone: 'plain' } as const] : []),
  ];
}

function reviewBadges(status: ToolView['status'], isWithheld: boolean): Badge[] {
  switch (status) {
    case 'new':
      return [{ text: isWithheld ? 'New, blocked' : 'New', tone: 'care' }];
    case 'changed':
      return [
        isWithheld ? { text: 'Changed, blocked', tone: 'bad' } : { text: 'Changed', tone: 'care' },
      ];
    case 'rejected':
      return [{ text: 'Rejected', tone: 'bad' }];
    case 'unlisted':
      return [{ text: 'Never listed', tone: 'plain' }];
    case 'accepted':
    case 'offered':
      return [];
  }
}

/** Who may use something: `Everyone`, or the names of groups. */
export function audienceWords(audience: ToolView['audience']): string {
  if (!audience || audience.access === 'everyone') return 'Everyone';
  const names = audience.groups.map(({ name }) => name ?? 'a deleted group');
  return names.length === 0 ? 'No one' : names.join(', ');
}

/** The caller whose rights are explained. */
export interface Subject {
  readonly type: 'person' | 'key' | 'client' | 'grant';
  readonly name: string;
}

/** The setting that decides: where a person can look at it or change it. */
export type DecidingSetting =
  | 'matrix'
  | 'tool'
  | 'review'
  | 'credential'
  | 'person'
  | 'server-access'
  | 'server-settings'
  | 'organization'
  | undefined;

export interface ReasonWords {
  readonly text: string;
  readonly setting: DecidingSetting;
}

const reasons: readonly RightsReason[] = [
  'everyone',
  'group',
  'chosen',
  'hidden',
  'withheld',
  'unknown',
  'other_group',
  'no_person',
  'not_read_only',
  'not_chosen',
  'no_scope',
  'organization_disabled',
  'server_disabled',
  'no_server_group',
  'revoked',
  'expired',
  'other_server',
  'only_for_people',
  'self_registered',
  'latchkey_proxy',
  'owner_left',
];

/** Reads a reason as operations write it. */
export function reasonOf(text: string | null): RightsReason | undefined {
  return reasons.find((one) => one === text);
}

/** Why a subject may use something, or why not, in a sentence. */
export function reasonWords(
  reason: RightsReason,
  { type }: Subject,
  { kind, audience }: Pick<ToolView, 'kind' | 'audience'>,
): ReasonWords {
  const groups = audienceWords(audience);
  const [who, whose] = type === 'person' ? ['this person', 'their role'] : [nouns[type], 'it'];
  switch (reason) {
    case 'everyone':
      return { text: 'Everyone who can use the server can use it.', setting: 'matrix' };
    case 'group':
      return {
        text: `Restricted to ${groups}, and ${personOf(type)} is a member.`,
        setting: 'matrix',
      };
    case 'chosen':
      return {
        text: `Restricted to ${groups}, but chosen by name for ${who}.`,
        setting: 'credential',
      };
    case 'hidden':
      return { text: 'Hidden from everyone.', setting: 'tool' };
    case 'withheld':
      return { text: 'Blocked until an administrator accepts its definition.', setting: 'review' };
    case 'unknown':
      return { text: 'On no list of the server that was accepted.', setting: 'review' };
    case 'other_group':
      return {
        text: `Restricted to ${groups}, and ${personOf(type)} is in none of these groups.`,
        setting: 'matrix',
      };
    case 'no_person':
      return {
        text: `Restricted to ${groups}, and ${who} acts for no person. Choose it by name for ${who} to open it.`,
        setting: 'credential',
      };
    case 'not_read_only':
      return {
        text: `${capital(who)} is limited to tools that read, and no administrator has accepted this one as read-only.`,
        setting: 'tool',
      };
    case 'not_chosen':
      return { text: `${capital(who)} is limited to other tools.`, setting: 'credential' };
    case 'no_scope': {
      const scope = allScopes.find((one) => one === scopeFor(kind)) ?? '';
      return type === 'person'
        ? { text: `${capital(whose)} does not include ${scope}.`, setting: 'person' }
        : { text: `${capital(who)} does not have the scope ${scope}.`, setting: 'credential' };
    }
    // Why a subject cannot use the server at all.
    case 'organization_disabled':
      return { text: 'The organization is disabled.', setting: undefined };
    case 'server_disabled':
      return { text: 'The server is disabled.', setting: 'server-settings' };
    case 'no_server_group':
      return {
        text: 'The server is restricted to groups, and the person is in none of them.',
        setting: 'server-access',
      };
    case 'revoked':
      return { text: `${capital(who)} was revoked.`, setting: 'credential' };
    case 'expired':
      return { text: `${capital(who)} has expired.`, setting: 'credential' };
    case 'other_server':
      return { text: `${capital(who)} is for another server.`, setting: undefined };
    case 'only_for_people':
      return {
        text: `${capital(who)} acts only for people. Check the person, or the consent that the person gave it.`,
        setting: undefined,
      };
    case 'self_registered':
      return {
        text: 'The organization accepts only applications that its administrators created.',
        setting: 'organization',
      };
    case 'latchkey_proxy':
      return {
        text: 'Latchkey’s own proxy is turned off in this organization.',
        setting: 'organization',
      };
    case 'owner_left':
      return {
        text: 'The person who created it left, and no one has taken it over.',
        setting: 'credential',
      };
  }
}

const nouns = {
  person: 'this person',
  key: 'this API key',
  client: 'this OAuth client',
  grant: 'this application',
} as const;

function personOf(type: Subject['type']): string {
  return type === 'person' ? 'this person' : 'the person it acts for';
}

function scopeFor(kind: ToolView['kind']): string {
  return kind === 'tool' ? 'mcp:tools:execute' : 'mcp:resources:read';
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
