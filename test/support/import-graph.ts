import { readFileSync, readdirSync } from 'node:fs';
import { join, posix } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** The folders by the names with which tests import their files: the programs, the scripts and the test support. */
const named: Readonly<Record<string, string>> = {
  mcp: 'mcp',
  proxy: 'proxy',
  server: 'server',
  tray: 'tray-app',
  scripts: 'scripts',
  support: 'test/support',
};
const programs = ['mcp', 'proxy', 'server', 'tray-app'];
const folders = [...programs, 'scripts', 'test'];

/** The files that programs import from each other, apart from `latchkey-mcp/FILE`. */
const exported: Readonly<Record<string, string>> = {
  'latchkey/agent': 'proxy/agent/local-servers.ts',
  'latchkey/accounts': 'proxy/app/accounts.ts',
};

/** The TypeScript files of the repository by their paths from its root, each with those that it imports, types and lazy imports included. */
export function importGraph(): ReadonlyMap<string, readonly string[]> {
  const files = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => posix.join(folder, file.replaceAll('\\', '/')))
      .filter((file) => file.endsWith('.ts') && !/\/(node_modules|dist|out)\//.test(file)),
  );
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const imported = specifiersIn(readFileSync(join(root, file), 'utf8'))
        .map((specifier) => fileOf(specifier, file) ?? '')
        .filter((other) => other !== file && known.has(other));
      return [file, [...new Set(imported)]] as const;
    }),
  );
}

/**
 * The circles of a graph: the sets of files of which each reaches every other, in alphabetical order. Tarjan's algorithm for
 * strongly connected components.
 */
export function circlesIn(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const circles: string[][] = [];
  const indexes = new Map<string, number>();
  const stack: string[] = [];

  /** Visits a file and returns the lowest index on the stack that it reaches. */
  const visit = (file: string): number => {
    const index = indexes.size;
    indexes.set(file, index);
    stack.push(file);
    let lowest = index;
    for (const other of graph.get(file) ?? []) {
      const known = indexes.get(other);
      if (known === undefined) lowest = Math.min(lowest, visit(other));
      else if (stack.includes(other)) lowest = Math.min(lowest, known);
    }
    if (lowest === index) {
      const circle = stack.splice(stack.lastIndexOf(file)).toSorted();
      if (circle.length > 1) circles.push(circle);
    }
    return lowest;
  };

  for (const file of graph.keys()) if (!indexes.has(file)) visit(file);
  return circles;
}

/** The specifiers that a source text imports or re-exports, types and lazy imports included. */
export function specifiersIn(source: string): string[] {
  const found = source.matchAll(
    /^\s*(?:import|export)\s[^'";]*?from\s*'([^']+)'|^\s*import\s*'([^']+)'|\bimport\(\s*'([^']+)'/gm,
  );
  return [...found].map((match) => match[1] ?? match[2] ?? match[3] ?? '');
}

/** The file that a specifier in `from` stands for; `undefined` for a package. */
function fileOf(specifier: string, from: string): string | undefined {
  if (specifier.startsWith('.')) return posix.join(posix.dirname(from), specifier);
  if (specifier.startsWith('latchkey-mcp/')) return `mcp/${specifier.slice(13)}.ts`;
  if (!specifier.startsWith('#')) return exported[specifier];
  const path = specifier.slice(1);
  const [program = ''] = from.split('/');
  if (programs.includes(program)) return `${program}/${path}.ts`;
  const [name = '', ...rest] = path.split('/');
  return [named[name] ?? name, ...rest].join('/') + '.ts';
}
