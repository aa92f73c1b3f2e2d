/** Which tools there are for the assistant: all, unless a list says otherwise. `*` is any text. */
export type ToolRules = { allow?: readonly string[]; deny?: readonly string[] };

/** Whether `rules` admit a tool of that name. What is denied stays so, also when it is allowed. */
export function admittedTools({ allow, deny }: ToolRules): (name: string) => boolean {
  const allowed = allow?.map(pattern);
  const denied = deny?.map(pattern) ?? [];
  return (name) =>
    (allowed?.some((shape) => shape.test(name)) ?? true) &&
    !denied.some((shape) => shape.test(name));
}

function pattern(glob: string): RegExp {
  const parts = glob.split('*').map((part) => part.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's');
}
