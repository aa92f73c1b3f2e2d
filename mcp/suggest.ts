/** The known word that differs from `word` by at most two letters, and by less than half of its own letters. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((one) => ({ one, distance: editDistance(word, one) }))
    .filter(({ one, distance }) => distance > 0 && distance <= Math.min(2, (one.length - 1) / 2))
    .toSorted((one, other) => one.distance - other.distance);
  return best?.one;
}

/** How many letters are missing, added, wrong or swapped with their neighbour. */
function editDistance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= from.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const at = (up: number, left: number) => rows[i - up]?.[j - left] ?? 0;
      const wrong = from[i - 1] === to[j - 1] ? 0 : 1;
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const ways = [at(1, 0) + 1, (row[j - 1] ?? 0) + 1, at(1, 1) + wrong];
      row.push(Math.min(...ways, ...(isSwapped ? [at(2, 2) + 1] : [])));
    }
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
