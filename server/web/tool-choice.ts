// The part of forms that limits what a key, a client or a grant may use of a server: everything, only tools that read, or chosen ones.

import type { Form } from '#oauth/forms';
import type { Scope } from '#model/scopes';
import type { PrimitiveKind, ToolSelection } from '#model/tool-rights';
import { errorText } from './forms.ts';
import { html, type Html } from './html.ts';
import { badge, type Badge } from './layout.ts';

/** A tool, prompt, resource or template that can be chosen by name. */
export interface Choosable {
  readonly kind: PrimitiveKind;
  readonly name: string;
  readonly title?: string | undefined;
  readonly badges?: readonly Badge[];
}

/** The entered values: the type of a selection and, for `chosen`, each name after its kind: `tool:search`. */
export type EnteredTools = readonly string[];

/** The members of a selection. Resources and templates are one list. */
const lists = { tool: 'tools', prompt: 'prompts', resource: 'resources' } as const;
type ListedKind = keyof typeof lists;
const listedKinds = ['tool', 'prompt', 'resource'] as const satisfies readonly ListedKind[];
const types = ['all', 'read-only', 'chosen'] as const satisfies readonly ToolSelection['type'][];

export function enteredTools(selection: ToolSelection): EnteredTools {
  if (selection.type !== 'chosen') return [selection.type];
  const names = listedKinds.flatMap((kind) =>
    selection[lists[kind]].map((name) => `${kind}:${name}`),
  );
  return ['chosen', ...names];
}

/** Reads the values of `toolChoiceField`. Empty if the field was not on the page, so that an older page widens no selection. */
export function sentTools(form: Form, name: string): EnteredTools {
  const type = types.find((one) => one === form.get(name));
  if (type === undefined) return [];
  return type === 'chosen' ? [type, ...sentNames(form, name)] : [type];
}

/** The names that were checked in `toolBoxes` or typed below them, whatever type is chosen. */
export function sentNames(form: Form, name: string): string[] {
  const checked = [...form.keys()].flatMap((field) => {
    const [at, kind = '', ...rest] = field.split('.');
    if (at !== name || !isListed(kind)) return [];
    try {
      return `${kind}:${decodeURIComponent(rest.join('.'))}`;
    } catch {
      // Not a checkbox of ours.
      return [];
    }
  });
  const typed = listedKinds.flatMap((kind) =>
    (form.get(`${name}-${kind}`) ?? '')
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => `${kind}:${line}`),
  );
  return [...new Set([...checked, ...typed])];
}

function isListed(kind: string): kind is ListedKind {
  return Object.hasOwn(lists, kind);
}

/** The selection that was entered, not checked yet. */
export function selectionOf([type, ...names]: EnteredTools): ToolSelection {
  if (type === 'read-only' || type === 'all') return { type };
  const of = (kind: ListedKind) =>
    names.flatMap((name) => (name.startsWith(`${kind}:`) ? [name.slice(kind.length + 1)] : []));
  return { type: 'chosen', tools: of('tool'), prompts: of('prompt'), resources: of('resource') };
}

/** Describes a selection in a few words, for a fact or a column. `others` is the number of chosen names that the reader does not see. */
export function selectionWords(
  selection: ToolSelection & { readonly others?: number | undefined },
): string {
  switch (selection.type) {
    case 'all':
      return 'All tools';
    case 'read-only':
      return 'Only tools that read';
    case 'chosen': {
      const { tools, prompts, resources, others = 0 } = selection;
      const counts = [
        ...countWords(tools.length, 'tool'),
        ...countWords(prompts.length, 'prompt'),
        ...countWords(resources.length, 'resource'),
        ...(others === 0 ? [] : [`${others} that you cannot use`]),
      ];
      return counts.length === 0 ? 'Nothing' : `Only ${counts.join(', ')}`;
    }
  }
}

function countWords(count: number, noun: string): string[] {
  if (count === 0) return [];
  return [`${count} ${noun}${count === 1 ? '' : 's'}`];
}

/** Describes the tools of a grant; `None` for a grant without the scope for using tools. */
export function grantedTools({
  scopes,
  tools,
}: {
  readonly scopes: readonly Scope[];
  readonly tools: ToolSelection;
}): string {
  return scopes.includes('mcp:tools:execute') ? selectionWords(tools) : 'None';
}

/** The words for the choices on one page. */
export interface ToolChoiceWords {
  readonly all: { readonly text: string; readonly help: string };
  readonly readOnly: { readonly text: string; readonly help: string };
  readonly chosen: { readonly text: string; readonly help: string };
}

const readOnlyChoice = {
  text: 'Only tools that read',
  help: 'Tools that are annotated as read-only, once an administrator has accepted the annotation. Prompts and resources are only read anyway.',
};

/** For a key, which acts for no person. */
export const keyWords: ToolChoiceWords = {
  all: {
    text: 'All tools',
    help: 'Except tools that are restricted to groups: a key belongs to no group.',
  },
  readOnly: readOnlyChoice,
  chosen: {
    text: 'Chosen tools',
    help: 'Nothing else, not even what the server offers later. To let this key use a tool that is restricted to groups, choose the tool here.',
  },
};

/** For a client, which acts for people or for itself. */
export const clientWords: ToolChoiceWords = {
  all: {
    text: 'All tools',
    help: 'For a person, those that the person can use. On its own behalf, all except tools that are restricted to groups: a client belongs to no group.',
  },
  readOnly: readOnlyChoice,
  chosen: {
    text: 'Chosen tools',
    help: 'Nothing else, not even what the server offers later. To let this client use a tool that is restricted to groups on its own behalf, choose the tool here.',
  },
};

/** The parts of the field that differ between pages. */
export interface ToolChoiceHere {
  /** The known tools, prompts and resources of the server; `undefined` if the server is not known, so that names are typed. */
  readonly items: readonly Choosable[] | undefined;
  readonly words: ToolChoiceWords;
}

interface ToolChoiceField extends ToolChoiceHere {
  readonly name: string;
  readonly legend: string;
  readonly error?: string | undefined;
  readonly entered: EnteredTools;
}

/** Three radio buttons, and boxes for the last of them. */
export function toolChoiceField(field: ToolChoiceField): Html {
  const { name, legend, error, entered, items, words } = field;
  const options = [
    { value: 'all', ...words.all },
    { value: 'read-only', ...words.readOnly },
    { value: 'chosen', ...words.chosen },
  ];
  return html`<fieldset class="options${error && ' wrong'}" id="${name}" tabindex="-1"${error && html` aria-describedby="${name}-error"`}>
<legend>${legend}</legend>
${errorText(name, error)}
${options.map(
  ({ value, text, help }) =>
    html`<div class="option">
<input type="radio" name="${name}" id="${name}-${value}" value="${value}" aria-describedby="${name}-${value}-help"${entered[0] === value && html` checked`}>
<div>
<label for="${name}-${value}">${text}</label>
<p class="help" id="${name}-${value}-help">${help}</p>
</div>
</div>`,
)}
<div class="for-chosen">
${items && toolBoxes({ name, items, entered })}
${typedNames({ name, items, entered })}
</div>
</fieldset>`;
}

type Boxes = Pick<ToolChoiceField, 'name' | 'entered'> & { readonly items: readonly Choosable[] };

const headings = [
  { text: 'Tools', kinds: ['tool'] },
  { text: 'Prompts', kinds: ['prompt'] },
  { text: 'Resources', kinds: ['resource', 'template'] },
] as const;

/** The most checkboxes of a form, which are also the most names of a selection. Other names are typed. */
const mostBoxes = 1000;

/** A checkbox for each item, by kind. */
export function toolBoxes({ name, items, entered }: Boxes): Html {
  return html`${headings.map(({ text, kinds }) => {
    const ofKinds = items
      .slice(0, mostBoxes)
      .filter(({ kind }) => kinds.some((one) => one === kind));
    if (ofKinds.length === 0) return undefined;
    return html`<fieldset class="boxes">
<legend>${text}</legend>
<ul>
${ofKinds.map((item, place) => box(item, `${name}-${kinds[0]}-${place}`, { name, entered }))}
</ul>
</fieldset>`;
  })}`;
}

function box(item: Choosable, id: string, { name, entered }: Omit<Boxes, 'items'>): Html {
  const { title, badges = [] } = item;
  const kind = listedKindOf(item);
  const isChosen = entered.includes(`${kind}:${item.name}`);
  // Encoded, because browsers change line breaks in names, and pages replace characters that would reorder them.
  return html`<li>
<input type="checkbox" name="${name}.${kind}.${encodeURIComponent(item.name)}" id="${id}"${isChosen && html` checked`}>
<div><label for="${id}"><code dir="auto">${item.name}</code>${title && title !== item.name && html` <span class="soft" dir="auto">${title}</span>`}</label>${badges.map((one) => html` ${badge(one)}`)}</div>
</li>`;
}

function listedKindOf({ kind }: Choosable): ListedKind {
  return kind === 'template' ? 'resource' : kind;
}

/** Fields for names without a checkbox: URIs of resources, and all names if the server is not known. */
function typedNames({
  name,
  items,
  entered,
}: Pick<ToolChoiceField, 'name' | 'items' | 'entered'>): Html {
  const boxes = items?.slice(0, mostBoxes) ?? [];
  const boxed = new Set(boxes.map((item) => `${listedKindOf(item)}:${item.name}`));
  const isWhole = items !== undefined && boxes.length === items.length;
  const others = entered.slice(1).filter((one) => !boxed.has(one));
  const typed = [
    { kind: 'tool', label: 'Other tools', alone: 'Tools' },
    { kind: 'prompt', label: 'Other prompts', alone: 'Prompts' },
    { kind: 'resource', label: 'Other resources', alone: 'Resources' },
  ] as const;
  return html`${typed.map(({ kind, label, alone }) => {
    const lines = others.filter((one) => one.startsWith(`${kind}:`));
    // A name that the server no longer lists stays visible, and removable.
    if (isWhole && kind !== 'resource' && lines.length === 0) return undefined;
    const id = `${name}-${kind}`;
    const text = lines.map((one) => one.slice(kind.length + 1)).join('\n');
    const isGone = isWhole && kind !== 'resource';
    const help = `${kind === 'resource' ? 'URIs' : 'Names'}, one on each line${isGone ? '. The server does not list them now.' : ''}`;
    return html`<div class="field">
<label for="${id}">${items ? label : alone} <span class="optional">(optional)</span></label>
<textarea id="${id}" name="${id}" rows="2" class="code-like" spellcheck="false" aria-describedby="${id}-help" dir="auto">
${text}</textarea>
<p class="help" id="${id}-help">${help}</p>
</div>`;
  })}`;
}
