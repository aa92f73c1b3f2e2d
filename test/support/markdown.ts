import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** A line of a document that is not inside a code block. */
export interface ProseLine {
  /** From 1. */
  readonly number: number;
  readonly text: string;
}

/** A fenced code block. */
export interface CodeBlock {
  /** The line of its opening fence, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** The HTML comment on the line before the fence, without its marks. */
  readonly marker: string | undefined;
}

/** The names that a clone does not contain: git's own folder, and those in .gitignore. */
const notCloned = new Set(['.git', 'node_modules', 'dist', 'data', 'out']);

/** Every file and folder of a clone, as paths from its root. */
function pathsBelow(root: string, folder = ''): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !notCloned.has(name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? [path].concat(pathsBelow(root, path)) : [path];
    });
}

/** Every Markdown file of the repository: paths from its root. */
export function markdownFiles(root: string): string[] {
  return pathsBelow(root)
    .filter((path) => path.endsWith('.md'))
    .sort();
}

/** Parts a document into prose and fenced code blocks. CommonMark 0.31, "Fenced code blocks" */
export function readMarkdown(markdown: string): { prose: ProseLine[]; blocks: CodeBlock[] } {
  const prose: ProseLine[] = [];
  const blocks: CodeBlock[] = [];
  let open: { fence: string; indent: number; block: CodeBlock; lines: string[] } | undefined;
  for (const [index, text] of markdown.split('\n').entries()) {
    const [, indent = '', fence, language = ''] = /^(\s*)(`{3,}|~{3,})\s*(\S*)/.exec(text) ?? [];
    if (open === undefined && fence !== undefined) {
      const marker = /^\s*<!--\s*(.*?)\s*-->\s*$/.exec(prose.at(-1)?.text ?? '')?.[1];
      const block = { line: index + 1, language, text: '', marker };
      open = { fence, indent: indent.length, block, lines: [] };
    } else if (open === undefined) {
      prose.push({ number: index + 1, text });
    } else if (fence?.startsWith(open.fence) && language === '') {
      blocks.push({ ...open.block, text: open.lines.join('\n') });
      // Otherwise a block right after this one would take the marker of this one.
      prose.push({ number: index + 1, text: '' });
      open = undefined;
    } else {
      open.lines.push(text.slice(Math.min(open.indent, /^\s*/.exec(text)?.[0].length ?? 0)));
    }
  }
  if (open) throw new Error(`the code block of line ${open.block.line} has no end`);
  return { prose, blocks };
}

/** The anchors that GitHub gives a document: of its headings, and those written as HTML. */
export function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  for (const { text } of readMarkdown(markdown).prose) {
    const [, heading] = /^#{1,6}\s+(.*?)\s*#*\s*$/.exec(text) ?? [];
    if (heading !== undefined) {
      const slug = slugOf(heading);
      let anchor = slug;
      for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`;
      anchors.add(anchor);
    }
    for (const [, name = ''] of text.matchAll(/<[a-z]+[^>]*\s(?:id|name)="([^"]+)"/g))
      anchors.add(name);
  }
  return anchors;
}

/** GitHub's rule: the text without marks, in lower case, spaces as hyphens, other punctuation left out. */
function slugOf(heading: string): string {
  return heading
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/<[^>]+>/g, '')
    .replaceAll(/[`*]/g, '')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-');
}

/** A link or an image, and where it is. */
export interface Link {
  readonly line: number;
  readonly target: string;
}

/** Links and images of a document, written in Markdown or HTML. */
export function linksOf(markdown: string): Link[] {
  return readMarkdown(markdown).prose.flatMap(({ number, text }) => {
    const plain = text.replaceAll(/(`+)(?!`).*?(?<!`)\1(?!`)/g, '');
    const inline = plain.matchAll(/\]\(\s*<?([^\s)>]+)>?(?:\s+"[^"]*")?\s*\)/g);
    const references = plain.matchAll(/^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?/g);
    const html = plain.matchAll(/<(?:a|img|source)\b[^>]*?\s(?:href|src|srcset)="([^"\s]+)"/g);
    const auto = plain.matchAll(/<(https?:[^>\s]*)>/g);
    return [...inline, ...references, ...html, ...auto].map(([, target = '']) => ({
      line: number,
      target,
    }));
  });
}

/**
 * The problems of the links in the Markdown files below `root`, one line each: files that do not exist,
 * anchors that no heading gives, URLs that do not parse. No URL is requested.
 */
export function brokenLinks(root: string, files: readonly string[]): string[] {
  const text = (file: string) => readFileSync(join(root, file), 'utf8');
  const known = new Set(pathsBelow(root));
  return files.flatMap((file) => {
    const problems = linksOf(text(file)).map(({ line, target }) => {
      const problem = problemOf(target, file, known, text);
      return problem === undefined ? '' : `${file}:${line}: ${target} ${problem}`;
    });
    return problems.filter(Boolean);
  });
}

function problemOf(
  target: string,
  file: string,
  known: ReadonlySet<string>,
  text: (file: string) => string,
): string | undefined {
  if (/^[a-z][a-z\d+.-]*:/i.test(target)) {
    const scheme = URL.parse(target)?.protocol;
    if (scheme === undefined) return 'is not a URL';
    return ['https:', 'http:', 'mailto:'].includes(scheme) ? undefined : `has the scheme ${scheme}`;
  }
  const [path = '', anchor] = target.split('#');
  const named =
    path === ''
      ? file
      : decodeURIComponent(join('/', file, '..', path).slice(1)).replace(/\/$/, '');
  if (path.startsWith('/') || !known.has(named)) return 'is not in the repository';
  if (anchor === undefined) return undefined;
  if (!named.endsWith('.md')) return 'has an anchor, and is not Markdown';
  return anchorsOf(text(named)).has(anchor) ? undefined : `names no heading of ${named}`;
}
