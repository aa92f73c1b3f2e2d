import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { rolldown, type InputOptions, type Plugin, type RolldownOutput } from 'rolldown';

const root = join(import.meta.dirname, '..');

/**
 * Loads built-in modules of Node with `require` when one of our modules first needs them. `import` would read all exports of a
 * built-in module, and so load, for example, the streams of files. This saves a tenth of the start time.
 */
const lazyBuiltins: Plugin = {
  name: 'lazy builtins',
  resolveId(id, _importer, { kind }) {
    // CommonJS packages use `require` themselves, and the bundler's own preamble imports `node:module`.
    if (kind === 'require-call' || !id.startsWith('node:') || id === 'node:module')
      return undefined;
    return isBuiltin(id) ? { id: `\0${id}`, moduleSideEffects: false } : undefined;
  },
  async load(id) {
    if (!id.startsWith('\0node:')) return undefined;
    const name = id.slice(1);
    const names = Object.keys(await import(name)).filter((exported) => exported !== 'default');
    return [
      `const builtin = /* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(name)});`,
      'export default builtin;',
      ...names.map(
        (exported) => `export const ${exported} = /* @__PURE__ */ (() => builtin.${exported})();`,
      ),
    ].join('\n');
  },
};

/** The bundler options of everything that we publish. */
export const bundled = {
  platform: 'node',
  // The oldest Node that package.json accepts does not support all syntax of the sources, such as `await using`.
  transform: { target: 'node22.19' },
  plugins: [lazyBuiltins],
  // The other build of jsonc-parser loads its parts at run time, which a bundle does not contain.
  resolve: { alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' } },
} as const satisfies InputOptions;

/** A published program in one file, and the modules that went into it, as the bundler names them. */
export interface BundledProgram {
  readonly code: string;
  readonly modules: readonly string[];
}

/** Bundles a published program in memory; its run-time dependencies stay outside. */
export async function bundleProgram(folder: 'proxy' | 'server'): Promise<BundledProgram> {
  const { dependencies = {} }: { dependencies?: Record<string, string> } = JSON.parse(
    readFileSync(join(root, folder, 'package.json'), 'utf8'),
  );
  const external = new Set(Object.keys(dependencies));
  const build = await rolldown({
    input: join(root, folder, 'main.ts'),
    ...bundled,
    external: (id) =>
      id.startsWith('node:') ||
      external.has(
        id
          .split('/')
          .slice(0, id.startsWith('@') ? 2 : 1)
          .join('/'),
      ),
  });
  const output = await build.generate({
    format: 'esm',
    // In one file, a module that is imported on demand becomes a function, as do all that it imports, and their constants
    // become variables, which costs every call a tenth: so what calls need is imported statically.
    codeSplitting: false,
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
    entryFileNames: 'main.js',
  });
  await build.close();
  return { code: ascii(output.output[0].code), modules: modulesOf(output) };
}

/**
 * Escapes non-ASCII characters, because V8 stores a source with one of them as two bytes a character: five more megabytes
 * for the server. The minifier leaves such characters in strings, templates and regular expressions, where `\u` means
 * the same, and in comments.
 *
 * @throws {Error} if an escape would change the meaning
 */
export function ascii(code: string): string {
  const unsafe = /(?<!\\)(?:\\\\)*\\[\x80-\uffff]|String\.raw`[^`]*[\x80-\uffff]/.exec(code);
  if (unsafe) throw new Error(`not ASCII behind a backslash or String.raw: ${unsafe[0]}`);
  return code.replaceAll(
    /[\x80-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** The modules that the files of a build consist of. */
export function modulesOf({ output }: RolldownOutput): string[] {
  return output.flatMap((file) =>
    file.type === 'chunk' ? file.moduleIds.filter((id) => !id.startsWith('\0node:')) : [],
  );
}
