/** The kinds of lists whose changes a server can announce. */
export const listKinds = ['tools', 'resources', 'prompts'] as const;
export type ListKind = (typeof listKinds)[number];

/** A method that asks for a list: whose change it sees, and the member that the list stands in. */
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
