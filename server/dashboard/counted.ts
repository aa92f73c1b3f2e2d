/** `1 API key`, `3 API keys`, `no API keys`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  if (count === 0) return `no ${several}`;
  return `${count} ${count === 1 ? one : several}`;
}
