const scheme = 'skill://';
const maxLength = 4096;

/** Whether a URI has the scheme of skills, in any case. RFC 3986 §3.1 */
export function isSkillUri(uri: string | undefined): uri is string {
  return uri?.slice(0, scheme.length).toLowerCase() === scheme;
}

/**
 * What is wrong with a skill's URI; `undefined` when it is `skill://` and plain segments. A URI that leads out of its
 * folder is never looked up, however it is written: with dots, percent-encoded, or with backslashes.
 *
 * RFC 3986 §3.3, §5.2.4
 */
export function skillUriProblem(uri: string): string | undefined {
  if (uri.length > maxLength) return `is longer than ${maxLength} characters`;
  const path = uri.slice(scheme.length);
  if (/[?#@:]/.test(path)) return 'has parts that a skill URI does not have';
  for (const segment of path.split('/')) {
    const text = decoded(segment);
    if (text === undefined) return 'is not percent-encoded correctly';
    if (text === '.' || text === '..') return 'leads out of its folder';
    // oxlint-disable-next-line no-control-regex
    if (/[/\\\u0000-\u001f\u007f]/.test(text)) return 'contains an invalid character in a name';
  }
  return /^\/|\/\//.test(path) ? 'contains an empty name' : undefined;
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
