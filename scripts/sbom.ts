import { readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

/** An entry of package-lock.json. Packages of the registry have an `integrity`, workspaces have none. */
type Locked = { name?: string; version?: string; integrity?: string; license?: string };
type Manifest = { name: string; version: string; description?: string; license?: string };

const root = join(import.meta.dirname, '..');
const folders = '/node_modules/';

/**
 * The software bill of materials of a program of this workspace: every package that has a module among
 * `modules`, the modules that the bundler put into the program's files. `npm sbom` cannot list these
 * packages, because all bundled packages are development dependencies. The same modules give the same text.
 *
 * CycloneDX 1.6
 *
 * @throws {Error} when a module belongs to no package of package-lock.json
 */
export function sbomOf(program: string, modules: readonly string[]): string {
  const { packages }: { packages: Record<string, Locked> } = readJson('package-lock.json');
  const manifest: Manifest = readJson(`${program}/package.json`);
  const places = new Set(modules.map((module) => placeOf(module, packages)));
  places.delete(program);
  const found = [...places].map((place) => component(place, packages[place] ?? {}));
  // The same version in two places is one component.
  const components = [...new Map(found.map((one) => [one['bom-ref'], one])).values()];
  const { name, version, description, license } = manifest;
  const bom = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      lifecycles: [{ phase: 'build' }],
      component: {
        type: 'application',
        'bom-ref': `${name}@${version}`,
        name,
        version,
        ...(description !== undefined && { description }),
        ...licensed(license),
      },
    },
    components: components.sort((one, other) => (one['bom-ref'] < other['bom-ref'] ? -1 : 1)),
  };
  return `${JSON.stringify(bom, null, 2)}\n`;
}

/** The key in package-lock.json of the package that `module` is part of. */
function placeOf(module: string, packages: Readonly<Record<string, Locked>>): string {
  // Code that the bundler adds: the start of CommonJS modules, and template literals that contain `</script`.
  if (/^\0(rolldown\/|@oxc-project\+runtime@)/.test(module)) return 'node_modules/rolldown';
  const path = `/${relative(root, module).split(sep).join('/')}`;
  const at = path.lastIndexOf(folders);
  const [scope = '', name = ''] = path.slice(at + folders.length).split('/');
  const place =
    at < 0
      ? path.split('/')[1]
      : `${path.slice(1, at + folders.length)}${scope.startsWith('@') ? `${scope}/${name}` : scope}`;
  if (place === undefined || packages[place] === undefined)
    throw new Error(`package-lock.json does not know the package of ${module}`);
  return place;
}

function component(place: string, { name: named, version = '', integrity, license }: Locked) {
  const name = named ?? place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const [algorithm = '', digest = ''] = integrity?.split('-') ?? [];
  // A workspace gets no package URL, because the registry's package of that name may be anyone's.
  const purl =
    integrity === undefined ? undefined : `pkg:npm/${name.replace('@', '%40')}@${version}`;
  const hash = { alg: algorithm.replace('sha', 'SHA-'), content: hex(digest) };
  return {
    type: 'library',
    'bom-ref': purl ?? `${name}@${version}`,
    name,
    version,
    ...(integrity !== undefined && { hashes: [hash] }),
    ...licensed(license),
    ...(purl !== undefined && { purl }),
  };
}

function licensed(license: string | undefined) {
  return license === undefined ? {} : { licenses: [{ expression: license }] };
}

function hex(base64: string): string {
  return Buffer.from(base64, 'base64').toString('hex');
}

function readJson(path: string) {
  return JSON.parse(readFileSync(join(root, path), 'utf8'));
}
