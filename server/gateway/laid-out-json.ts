type Members = Iterable<readonly [label: string, value: unknown]>;

/**
 * A value of JSON for people to read, as `JSON.stringify` lays it out two blanks deep; with `sorted`, members in the order
 * of their names. Begins nothing more once it has more than `most` characters: laid out whole, what is nested deeply is a
 * hundred times as long as it came, and whoever sent it would keep everybody waiting.
 */
export function laidOutJson(value: unknown, most: number, { sorted = false } = {}): string {
  const parts: string[] = [];
  let length = 0;

  const put = (text: string) => {
    parts.push(text);
    length += text.length;
  };
  const putWithin = (
    [open, close]: readonly [string, string],
    members: Members,
    indent: string,
  ) => {
    let count = 0;
    put(open);
    for (const [label, member] of members) {
      if (length > most) return;
      put(`${count === 0 ? '' : ','}\n${indent}  ${label}`);
      putValue(member, `${indent}  `);
      count += 1;
    }
    put(count === 0 ? close : `\n${indent}${close}`);
  };
  const putValue = (one: unknown, indent: string) => {
    if (Array.isArray(one)) {
      putWithin(['[', ']'], elementsOf(one), indent);
    } else if (typeof one === 'object' && one !== null) {
      putWithin(['{', '}'], membersOf(one, sorted), indent);
    } else {
      put(JSON.stringify(one));
    }
  };

  putValue(value, '');
  return parts.join('');
}

function* elementsOf(list: readonly unknown[]): Members {
  for (const element of list) yield ['', element];
}

function membersOf(value: object, sorted: boolean): Members {
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  if (sorted) members.sort(([a], [b]) => (a < b ? -1 : 1));
  return members.map(([name, member]) => [`${JSON.stringify(name)}: `, member] as const);
}
