import type { ToolSubject } from './sign-in-tool.ts';

/**
 * A server as the assistant, and whoever runs its model, is told of it: without what stands behind the path,
 * which may be a key. One without a name is called by its address.
 */
export function toldSubject({ name, url }: ToolSubject): ToolSubject {
  const { origin, pathname } = new URL(url);
  const told = origin + pathname;
  return { name: name === url ? told : name, url: told };
}
