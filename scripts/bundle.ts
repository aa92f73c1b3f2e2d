import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import {
  rolldown,
  type InputOptions,
  type OutputOptions,
  type Plugin,
  type RolldownOutput,
} from 'rolldown';

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
  // A module that one program loads on demand may be needed by another program at its start.
  checks: { ineffectiveDynamicImport: false },
  // The other build of jsonc-parser loads its parts at run time, which a bundle does not contain.
  resolve: { alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' } },
} as const satisfies InputOptions;

/** The output options for the code of everything that we publish. */
export const minified = {
  minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
} as const satisfies OutputOptions;

/** Modules that a proxy needs only for a company sign-in or a workload. If it has one, it loads them like the modules below. */
const forCompanies = /proxy[\\/]auth[\\/](managed-authorization|provider-sign-in|workload-grant)\./;

/** Modules that a proxy may need after its start. The modules that these import statically come with them. */
const whileCarrying = new RegExp(
  [
    String.raw`^\0node:`,
    String.raw`^(?!.*${forCompanies.source}).*proxy[\\/](auth|keychain|pipeline|transport)[\\/]`,
    String.raw`proxy[\\/]status[\\/](publish-status|status-directory)\.`,
    String.raw`proxy[\\/](connections[\\/]secret-trial|config[\\/]provider-files|atomic-file|package)\.`,
  ].join('|'),
);

/** Modules that a running agent may need. */
const whileServing =
  /proxy[\\/](app[\\/]agent\.|agent[\\/])|node_modules[\\/](cross-spawn|ws)[\\/]/;

/** The output options for the files of each published program. */
export const outputOf = {
  proxy: {
    ...minified,
    codeSplitting: {
      groups: [
        { name: 'start', tags: ['$initial'], priority: 2 },
        { name: 'later', test: whileCarrying, priority: 1 },
        { name: 'company', test: forCompanies },
        { name: 'agent', test: whileServing },
      ],
    },
    chunkFileNames: '[name]-[hash].js',
  },
  server: { ...minified, codeSplitting: true, chunkFileNames: '[name].js' },
} as const satisfies Record<string, OutputOptions>;

/** A published program, and the modules that went into it, as the bundler names them. */
export interface BundledProgram {
  /** Its files by name; `main.js` is the one to run. */
  readonly files: ReadonlyMap<string, string>;
  readonly modules: readonly string[];
}

/**
 * Bundles a published program in memory; its run-time dependencies stay outside. The server has one file for each part that
 * `import()` loads on demand, so that a command does not load the running server. Splitting is also what makes `import()` cheap:
 * in one file, a module that is imported on demand becomes a function, as do all that it imports, and their constants become
 * variables, which costs every call a tenth.
 *
 * The proxy has a file with what every start needs, one with what a proxy may need later, one for companies, one for the agent, and the
 * commands. An upgrade may remove the files of a program that runs for days. So an agent loads its file at its start. A proxy loads
 * the second file, and the third if it needs that, soon after its first answer, when it publishes its status. The hash in a name
 * keeps a program from loading a file of another version.
 */
export async function bundleProgram(folder: 'proxy' | 'server'): Promise<BundledProgram> {
  const { dependencies = {} }: { dependencies?: Record<string, string> } = JSON.parse(
    readFileSync(join(root, folder, 'package.json'), 'utf8'),
  );
  const external = new Set(Object.keys(dependencies));
  const build = await rolldown({
    input: join(root, folder, 'main.ts'),
    ...bundled,
    // Built-in modules are not named here, because the bundler does not pass external modules to `lazyBuiltins`.
    external: (id) =>
      external.has(
        id
          .split('/')
          .slice(0, id.startsWith('@') ? 2 : 1)
          .join('/'),
      ),
  });
  const output = await build.generate({ ...outputOf[folder], format: 'esm' });
  await build.close();
  const files = output.output.flatMap((file) =>
    file.type === 'chunk' ? [[file.fileName, ascii(file.code)] as const] : [],
  );
  return { files: new Map(files), modules: modulesOf(output) };
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
