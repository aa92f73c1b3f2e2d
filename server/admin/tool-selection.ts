import { nearest } from 'latchkey-mcp/suggest';
import { z } from 'zod';

import { UsageError } from '#config/usage-error';
import type { ToolSelection } from '#model/tool-rights';
import { longestName } from '#tools/definition';
import { surfaces } from './fields.ts';
import type { IsShown } from './shown-names.ts';

const longestUriBytes = 2000;
const mostNames = 1000;

const isText = (text: string) => text.isWellFormed() && !text.includes('\0');
const notText = 'contains characters that no name can contain';

/** The name of a tool or prompt, as the server lists it. */
export const primitiveName = z.string().min(1).max(longestName).refine(isText, notText);

/** The URI of a resource, or a URI template, byte for byte as the server lists it. */
export const resourceUri = z
  .string()
  .min(1)
  .refine(isText, notText)
  .refine(
    (uri) => Buffer.byteLength(uri) <= longestUriBytes,
    `must have at most ${longestUriBytes} bytes`,
  );

const listOf = (name: z.ZodString) => z.array(name).max(mostNames).default([]);

const words =
  'All that the scopes allow (`all`); of the tools, only those whose accepted annotation says that they only read (`read-only`); or what is listed (`chosen`)';

/** The selection that limits a key, a client or a grant, in views. */
export const toolSelectionView = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('all') }),
    z.object({ type: z.literal('read-only') }),
    z.object({
      type: z.literal('chosen'),
      tools: z.array(z.string()),
      prompts: z.array(z.string()),
      resources: z.array(z.string()).describe('URIs and URI templates'),
      others: z
        .int()
        .optional()
        .describe('How many more were chosen that the reader cannot use; absent if there are none'),
    }),
  ])
  .describe(words)
  .meta({ id: 'ToolSelection' });

const given = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('all') }),
    z.strictObject({ type: z.literal('read-only') }),
    z
      .strictObject({
        type: z.literal('chosen'),
        tools: listOf(primitiveName),
        prompts: listOf(primitiveName),
        resources: listOf(resourceUri).describe('URIs and URI templates'),
      })
      .refine(
        ({ tools, prompts, resources }) => tools.length + prompts.length + resources.length > 0,
        { message: 'must contain at least one name', path: ['tools'] },
      ),
  ])
  .describe(words)
  .meta({ id: 'GivenToolSelection' });

/** The placeholder of a selection in the help, and its description. */
export const selectionValue = 'all|read-only|NAME,NAME';
export const selectionDoc =
  'all, read-only (those that only read), or some by name; a comma after a single name says that it is a name';

const surface = {
  option: {
    name: 'tools',
    value: selectionValue,
    doc: `the tools that it can use: ${selectionDoc}`,
    read: readSelection,
  },
  control: { kind: 'tools', label: 'Tools', subject: 'The choice of tools' },
} as const;

/** A selection as it is entered. */
export const toolSelection = given.clone().register(surfaces, surface);
/** A selection that can be omitted: a new credential then has all tools, and an existing one keeps its selection. */
export const maybeToolSelection = given.optional().register(surfaces, surface);

/**
 * Reads a selection: a word, or names separated by commas. A single name that resembles a word is refused, because a
 * credential limited to a tool that does not exist can do nothing, and nobody notices.
 *
 * @throws {UsageError}
 */
export function readSelection(text: string, option: string): ToolSelection {
  if (text === 'all' || text === 'read-only') return { type: text };
  const tools = text.split(',').filter((name) => name !== '');
  if (tools.length === 0)
    throw new UsageError(`--${option} is neither all, read-only nor names of tools`);
  const meant = text.includes(',') ? undefined : meantWord(text);
  if (meant !== undefined)
    throw new UsageError(
      `--${option} '${text}' is neither all nor read-only`,
      `did you mean ${meant}? If it is the name of a tool, put a comma after it: ${text},`,
    );
  return { type: 'chosen', tools, prompts: [], resources: [] };
}

/** The word that `text` spells differently, as `readonly` and `ALL` do. Short names such as `call` are not taken for one. */
function meantWord(text: string): string | undefined {
  const lettersOf = (word: string) => word.toLowerCase().replaceAll(/[^a-z]/g, '');
  const same = ['all', 'read-only'].find((word) => lettersOf(word) === lettersOf(text));
  return same ?? nearest(text.toLowerCase(), ['read-only']);
}

/** Converts a selection to its view, with only the names that are shown to its reader. */
export function toSelectionView(
  selection: ToolSelection,
  isShown: IsShown = () => true,
): z.output<typeof toolSelectionView> {
  if (selection.type !== 'chosen') return selection;
  const { type } = selection;
  const tools = selection.tools.filter((name) => isShown({ kind: 'tool', name }));
  const prompts = selection.prompts.filter((name) => isShown({ kind: 'prompt', name }));
  const resources = selection.resources.filter((name) =>
    isShown({ kind: name.includes('{') ? 'template' : 'resource', name }),
  );
  const count = selection.tools.length + selection.prompts.length + selection.resources.length;
  const others = count - tools.length - prompts.length - resources.length;
  return { type, tools, prompts, resources, ...(others > 0 && { others }) };
}

/** A selection in a line or a column: `all`, `read-only`, or the chosen names. */
export function selectionCell({
  tools,
}: {
  readonly tools: z.output<typeof toolSelectionView>;
}): string | string[] {
  if (tools.type !== 'chosen') return tools.type;
  return [...tools.tools, ...tools.prompts, ...tools.resources];
}
