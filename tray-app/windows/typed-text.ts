/** What stands in a field, without blanks around it. */
export function typedText(data: FormData, field: string): string {
  const value = data.get(field);
  return typeof value === 'string' ? value.trim() : '';
}
