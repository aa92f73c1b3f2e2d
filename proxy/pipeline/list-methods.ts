/** The kinds of lists for which a server can report changes. */
export const listKinds = ['tools', 'resources', 'prompts'] as const;
export type ListKind = (typeof listKinds)[number];

/** A method that returns a list: the kind, and the member of the result that contains the list. */
export type ListMethod = { kind: ListKind; member: string };

const methods = new Map<string, ListMethod>([
  ['tools/list', { kind: 'tools', member: 'tools' }],
  ['resources/list', { kind: 'resources', member: 'resources' }],
  ['resources/templates/list', { kind: 'resources', member: 'resourceTemplates' }],
  ['prompts/list', { kind: 'prompts', member: 'prompts' }],
]);

export function listMethod(method: string | undefined): ListMethod | undefined {
  return method === undefined ? undefined : methods.get(method);
}
