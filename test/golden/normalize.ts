import manifest from '../../server/package.json' with { type: 'json' };

const daySeconds = 86_400;
const hourSeconds = 3600;
/** A number of ten digits counts as a time when it is no further away from now. */
const longestSeconds = 730 * daySeconds;
const lineLength = 100;

/** The addresses and folders that differ from run to run, each with the name that replaces it. */
export type Names = Readonly<Record<string, string>>;

/** Replaces ids, secrets, times and addresses, which differ from run to run, by placeholders that say what they are. */
export function normalize(text: string, names: Names): string {
  const version = manifest.version.replaceAll('.', String.raw`\.`);
  // The longest first: a folder may lie in another one.
  return (
    Object.entries(names)
      .toSorted(([one], [other]) => other.length - one.length)
      .reduce((named, [value, name]) => named.replaceAll(value, name), text)
      .replaceAll(new RegExp(String.raw`(?<![\d.])${version}(?![\d.])`, 'g'), '<version>')
      // Before ids, which any text like this may contain.
      .replaceAll(/("x": ")[\w-]{43}"/g, '$1<public key>"')
      .replaceAll(/\b(secret|pk_live|mcp|code|rt|pat|scim)_[0-9A-Za-z]{36}\b/g, '$1_<secret>')
      .replaceAll(/\b(secret|pk_live|mcp|code|rt|pat|scim)_…[0-9A-Za-z]{4}/g, '$1_…<end>')
      .replaceAll(/\bwhsec_[\w+/]{43}=/g, 'whsec_<secret>')
      .replaceAll(/\bv1,[\w+/]{43}=/g, 'v1,<signature>')
      .replaceAll(/\beyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<jwt>')
      .replaceAll(/\/(invitation|reset|set-up)\/[\w-]{20,}/g, '/$1/<token>')
      .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
      .replaceAll(/\b([a-z]+)_(?=[a-z]*[0-9A-Z])(?:[0-9A-Za-z]{16}|[0-9A-Za-z]{24})\b/g, '$1_<id>')
      .replaceAll(/\b(signing-key:|kid"?:?\s+"?)[0-9A-Za-z]{16}\b/g, '$1<kid>')
      .replaceAll(/("jti": ")[0-9A-Za-z]{22}"/g, '$1<id>"')
      .replaceAll(/\b[0-9a-f]{34}\b/g, '<event id>')
      .replaceAll(/(\/assets\/\w+)\.[0-9a-f]{16}\./g, '$1.<digest>.')
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z/g, (iso, thousandths?: string) => {
        const time = relativeTime(Date.parse(iso) / 1000);
        return thousandths === undefined ? `<${time}>` : `<${time}, .000>`;
      })
      .replaceAll(/(?<![\w.-])\d{10}(?![\w.-])/g, (digits) => {
        const isTime = Math.abs(Number(digits) - Date.now() / 1000) < longestSeconds;
        return isTime ? `<${relativeTime(Number(digits))}>` : digits;
      })
  );
}

/** `now`, `now + 1 h` or `now + 90 d`: a run takes minutes, so that the hour nearest to a time stays the same. */
function relativeTime(at: number): string {
  const seconds = Math.round((at - Date.now() / 1000) / hourSeconds) * hourSeconds;
  if (seconds === 0) return 'now';
  const length = Math.abs(seconds);
  const words =
    length % daySeconds === 0 ? `${length / daySeconds} d` : `${length / hourSeconds} h`;
  return `now ${seconds < 0 ? '-' : '+'} ${words}`;
}

/** Indented JSON in which an array or object that fits on one line stays there. */
export function layOutJson(value: unknown, indent = ''): string {
  const isArray = Array.isArray(value);
  const flat = JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ');
  if (typeof value !== 'object' || value === null || indent.length + flat.length <= lineLength) {
    return flat;
  }
  const inner = `${indent}  `;
  const lines = Object.entries(value).map(([name, member]: [string, unknown]) => {
    return `${inner}${isArray ? '' : `${JSON.stringify(name)}: `}${layOutJson(member, inner)}`;
  });
  const [open, close] = isArray ? '[]' : '{}';
  return `${open}\n${lines.join(',\n')}\n${indent}${close}`;
}
