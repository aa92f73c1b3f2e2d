/*
 * Finds suspicious structure in a definition, whatever its text says. Nothing here judges meaning: a warning should never be wrong,
 * because people who get many warnings stop reading them. Phrases that attacks use also occur in honest texts, so they are notes.
 */
import type { DefinitionKind } from '#model/definitions';
import { hiddenCharacters } from './hidden-characters.ts';
import { encodedCommands } from './encoded-commands.ts';

export type WarningCode =
  /** Characters that no one sees, but a model reads. */
  | 'invisible'
  /** Invisible characters that spell a text. */
  | 'hidden-text'
  /** Characters that make a text appear in another order than a model reads it. */
  | 'bidirectional'
  /** Control characters, such as the escape sequences of terminals. */
  | 'control'
  /** A blank so long that the text after it is out of sight. */
  | 'padding'
  /** The name of a tool of another server. */
  | 'foreign-tool'
  /** An encoded text that is a shell command. */
  | 'encoded-command'
  /** A name that may be too long once an assistant has put its prefix in front. */
  | 'name-long'
  /** A name that is too long for Claude and OpenAI once an assistant has put its prefix in front. */
  | 'name-too-long'
  /** Characters of a name that the APIs of Claude or OpenAI refuse. */
  | 'name-characters'
  /** A definition that is too long to be shown whole. */
  | 'cut'
  /** A phrase that known attacks use, but honest texts, too. */
  | 'phrase';

export interface DefinitionWarning {
  readonly code: WarningCode;
  /** Whether it is only a reason to read closely. */
  readonly isNote: boolean;
  /** The place in the definition: `name`, `description`, `inputSchema.properties.city.description`. */
  readonly where: string;
  /** What was found, as a predicate whose subject is the place: `contains U+200B`. */
  readonly detail: string;
}

/** A definition as it is stored for people to read. */
export interface CheckedDefinition {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly text: string;
}

export interface WarningContext {
  /** The name of the server, which assistants put in front of its tools. */
  readonly server: string;
  /** The names of the server's own tools. */
  readonly ownTools: ReadonlySet<string>;
  /** The names of the tools of the organization's other servers, each with a server that has it. */
  readonly otherTools: ReadonlyMap<string, string>;
}

/** The context for the warnings of one server, from the names of all tools of its organization. */
export function warningContext(
  server: string,
  tools: readonly { readonly server: string; readonly tool: string }[],
): WarningContext {
  const own = tools.filter((one) => one.server === server);
  const others = tools.filter((one) => one.server !== server);
  return {
    server,
    ownTools: new Set(own.map(({ tool }) => tool)),
    otherTools: new Map(others.map((one) => [one.tool, one.server])),
  };
}

const mostWarnings = 50;
const longestShown = 100;

/** A text in a definition that a model reads, and its place. */
interface Place {
  readonly where: string;
  readonly text: string;
  /** Whether it is prose, rather than a name or a value. */
  readonly isProse: boolean;
}

/** The warnings about a definition, then the notes. */
export function definitionWarnings(
  definition: CheckedDefinition,
  context: WarningContext,
): DefinitionWarning[] {
  const { places, isCut } = placesIn(definition);
  const found: DefinitionWarning[] = [
    ...nameWarnings(definition, context),
    ...places.flatMap((place) => warningsAt(place, context)),
  ];
  if (isCut) {
    const detail = 'is longer than what is shown here';
    found.push({ code: 'cut', isNote: true, where: 'definition', detail });
  }
  const notes = found.filter(({ isNote }) => isNote);
  return [...found.filter(({ isNote }) => !isNote), ...notes].slice(0, mostWarnings);
}

function warningsAt(place: Place, context: WarningContext): DefinitionWarning[] {
  const { where, text, isProse } = place;
  const warnings: DefinitionWarning[] = [];
  const warn = (code: WarningCode, detail: string) =>
    warnings.push({ code, isNote: code === 'phrase', where, detail });
  for (const { code, detail } of hiddenCharacters(text)) warn(code, detail);
  if (/\s{100}/.test(text)) {
    warn(
      'padding',
      'contains a blank of more than 100 characters, behind which text is out of sight',
    );
  }
  for (const { encoding, command } of encodedCommands(text)) {
    warn('encoded-command', `contains a command in ${encoding}: ${shown(command)}`);
  }
  if (!isProse) return warnings;
  for (const [name, server] of foreignTools(text, context)) {
    warn('foreign-tool', `names ${name}, a tool of the server ${server}`);
  }
  for (const phrase of phrasesIn(text)) warn('phrase', `contains “${shown(phrase)}”`);
  return warnings;
}

/** The longest name of a tool for Claude and OpenAI, with the prefix of the assistant. */
const longestPrefixed = 64;
/** A longer name exceeds that limit with the prefix of a connection whose name has an ordinary length. */
const longestComfortable = 40;

function nameWarnings(
  { kind, name }: CheckedDefinition,
  { server }: WarningContext,
): DefinitionWarning[] {
  if (kind !== 'tool') return [];
  const warnings: DefinitionWarning[] = [];
  const { length } = name;
  const prefix = `mcp__${server}__`;
  const at = { isNote: false, where: 'name' } as const;
  if (length > longestPrefixed - prefix.length) {
    const detail = `has ${length} characters, and ${length + prefix.length} with the prefix ${prefix}: Claude and OpenAI refuse more than ${longestPrefixed}`;
    warnings.push({ ...at, code: 'name-too-long', detail });
  } else if (length > longestComfortable) {
    const detail = `has ${length} characters: with the prefix of an assistant it may exceed ${longestPrefixed}, the limit of Claude and OpenAI`;
    warnings.push({ ...at, code: 'name-long', detail });
  }
  const refused = [...new Set(name.replaceAll(/[\w-]/g, ''))];
  if (refused.length > 0) {
    const characters = refused.slice(0, 5).map((one) => (/[!-~]/.test(one) ? one : codePoint(one)));
    const detail = `contains ${characters.join(' ')}: the APIs of Claude and OpenAI accept only letters, digits, _ and -`;
    warnings.push({ ...at, code: 'name-characters', detail });
  }
  return warnings;
}

/** Words that may name a tool. Only those with an underscore, a hyphen or an inner capital count: no one writes them by accident. */
const identifier = /[A-Za-z][\w-]*[A-Za-z\d]/g;

function foreignTools(text: string, { ownTools, otherTools }: WarningContext): Map<string, string> {
  const found = new Map<string, string>();
  if (otherTools.size === 0) return found;
  for (const [word] of text.matchAll(identifier)) {
    // As Claude Code names tools: `mcp__{server}__{tool}`.
    for (const name of [word, word.slice(word.lastIndexOf('__') + 2)]) {
      const server = otherTools.get(name);
      const isDistinct = /[_-]|[a-z\d][A-Z]/.test(name);
      if (server !== undefined && isDistinct && !ownTools.has(name)) found.set(name, server);
    }
  }
  return found;
}

const phrases: readonly RegExp[] = [
  /\b(?:do not|don['’]t|never|must not|without)\s+(?:ever\s+)?(?:tell|telling|inform|informing|notify|notifying|alert|alerting|mention|mentioning|reveal|revealing|disclose|disclosing)\b[^.\n]{0,60}?\b(?:users?|humans?|persons?)\b/i,
  /\b(?:do not|don['’]t|never)\s+(?:mention|reveal|disclose)\s+(?:this|that|these|it)\b/i,
  /\b(?:hide|conceal|keep)\b[^.\n]{0,40}?\b(?:secret|hidden)?\s*from\s+(?:the\s+)?users?\b/i,
  /\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+)*(?:previous|prior|above|earlier|preceding)\s+(?:instructions?|rules?|messages?|prompts?|directions?)\b/i,
  /<\/?(?:IMPORTANT|SYSTEM|SECRET|HIDDEN|INSTRUCTIONS?|CRITICAL)>/,
  /\[(?:IMPORTANT|SYSTEM|SECRET|HIDDEN|INSTRUCTIONS?)\b/,
  /<!--/,
  /\byou are now (?:a|an|in)\b/i,
  /(?:~|\$HOME|%USERPROFILE%|\/root|\/home\/[\w-]+)[\\/]\.(?:ssh|aws|gnupg|kube|cursor|netrc|npmrc|git-credentials|docker|config[\\/]gcloud)\b[\w./-]*/i,
  /\b(?:id_rsa|id_ed25519|id_ecdsa|claude_desktop_config\.json)\b/,
  /\/etc\/(?:passwd|shadow|sudoers)\b/,
];

function phrasesIn(text: string): string[] {
  return phrases.flatMap((phrase) => phrase.exec(text)?.[0] ?? []);
}

/** All texts of a definition. A definition that is not stored whole counts as one text. */
function placesIn({ kind, name, text }: CheckedDefinition): {
  readonly places: readonly Place[];
  readonly isCut: boolean;
} {
  if (kind === 'instructions') {
    return { places: [{ where: 'instructions', text, isProse: true }], isCut: text.endsWith('…') };
  }
  const places: Place[] = [{ where: 'name', text: name, isProse: false }];
  try {
    collect(JSON.parse(text), '', places);
    return { places, isCut: false };
  } catch {
    // A cut definition is not valid JSON, so only its \u escapes are decoded.
    const readable = text.replaceAll(/\\u([\dA-Fa-f]{4})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    places.push({ where: 'definition', text: readable, isProse: true });
    return { places, isCut: true };
  }
}

function collect(value: unknown, where: string, places: Place[]): void {
  if (typeof value === 'string') {
    const isProse = /\s/.test(value.trim()) || /(?:^|\.)(?:description|title)$/.test(where);
    places.push({ where, text: value, isProse });
  } else if (Array.isArray(value)) {
    value.forEach((element, index) => collect(element, `${where}[${index}]`, places));
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      const inside = where === '' ? name : `${where}.${name}`;
      places.push({ where: inside, text: name, isProse: false });
      collect(member, inside, places);
    }
  }
}

function shown(text: string): string {
  const plain = text.replaceAll(/[^\x20-\x7E]/g, ' ');
  return plain.length > longestShown ? `${plain.slice(0, longestShown)}…` : plain;
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
