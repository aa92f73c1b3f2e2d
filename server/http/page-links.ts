/** The pages around one of a list, as a `Link` header names them. RFC 8288 §3 */
export function pageLinks(
  url: URL,
  { total, page, limit }: { total: number; page: number; limit: number },
): string {
  const last = Math.max(1, Math.ceil(total / limit));
  const to = (rel: string, number: number) => {
    const target = new URL(url);
    target.searchParams.set('page', String(number));
    return `<${target.href}>; rel="${rel}"`;
  };
  return [
    to('first', 1),
    ...(page > 1 ? [to('prev', Math.min(page - 1, last))] : []),
    ...(page < last ? [to('next', page + 1)] : []),
    to('last', last),
  ].join(', ');
}
