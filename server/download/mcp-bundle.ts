import { createHash } from 'node:crypto';
import { strToU8, unzipSync, zipSync } from 'fflate';
import { z } from 'zod';

/** The members of a bundle's manifest that the server changes. All others stay as the build wrote them. MCPB manifest 0.3 */
const manifestSchema = z.looseObject({
  compatibility: z.looseObject({ platforms: z.array(z.string()).default([]) }).optional(),
  server: z.looseObject({
    mcp_config: z.looseObject({ command: z.string(), args: z.array(z.string()) }),
  }),
});
type Manifest = z.infer<typeof manifestSchema>;

/**
 * The parts of the bundle from a build. That bundle asks the user for the URL. Its files stay compressed: only the manifest, the
 * last file, is replaced for each MCP server.
 */
export interface BundleTemplate {
  readonly manifest: Manifest;
  /** The compressed files before the manifest. */
  readonly files: Buffer;
  /** Their entries in the central directory. */
  readonly directory: Buffer;
  readonly count: number;
  /** The digest of the files that all bundles share, in hexadecimal. */
  readonly sha256: string;
}

/** A bundle as a list of parts, so that memory holds the parts that all bundles share only once. */
export interface McpBundle {
  readonly parts: readonly Buffer[];
  readonly size: number;
  /** Changes with the content. */
  readonly tag: string;
}

export interface BundledServer {
  readonly organization: string;
  readonly server: string;
  readonly url: string;
}

const manifestName = 'manifest.json';
/** Lengths of the fixed parts of a zip file. APPNOTE 4.3.12, 4.3.16 */
const entryLength = 46;
const endLength = 22;
/** The same for every bundle, so that the same manifest gives the same bytes. Without a time zone, because zip files have none. */
const modifiedAt = new Date('1985-10-26T08:15:00');

/** @throws {Error} if `bundle` is not a zip file whose last entry is the manifest */
export function readBundleTemplate(bundle: Buffer): BundleTemplate {
  const { [manifestName]: manifest } = unzipSync(bundle, {
    filter: ({ name }) => name === manifestName,
  });
  const { directoryAt, count, endAt } = endOf(bundle);
  let lastAt = directoryAt;
  for (let passed = 1; passed < count; passed += 1) lastAt += lengthOfEntry(bundle, lastAt);
  const last = bundle.toString('utf8', lastAt + entryLength, endAt);
  if (!manifest || last !== manifestName) throw new Error(`${manifestName} is not the last file`);
  const files = bundle.subarray(0, bundle.readUInt32LE(lastAt + 42));
  return {
    manifest: manifestSchema.parse(JSON.parse(Buffer.from(manifest).toString('utf8'))),
    files,
    directory: bundle.subarray(directoryAt, lastAt),
    count: count - 1,
    sha256: createHash('sha256').update(files).digest('hex'),
  };
}

/** The bundle that connects to one MCP server. It contains no credential: the person signs in with the browser. */
export function bundleFor(template: BundleTemplate, server: BundledServer): McpBundle {
  const { files, directory, count, sha256 } = template;
  const manifest = JSON.stringify(manifestFor(template.manifest, server), null, 2);
  const single = Buffer.from(
    zipSync({ [manifestName]: strToU8(manifest) }, { mtime: modifiedAt, level: 0 }),
  );
  const { directoryAt, endAt } = endOf(single);
  const file = single.subarray(0, directoryAt);
  const entry = Buffer.from(single.subarray(directoryAt, endAt));
  entry.writeUInt32LE(files.length, 42);
  const end = Buffer.from(single.subarray(endAt));
  end.writeUInt16LE(count + 1, 8);
  end.writeUInt16LE(count + 1, 10);
  end.writeUInt32LE(directory.length + entry.length, 12);
  end.writeUInt32LE(files.length + file.length, 16);
  const parts = [files, file, directory, entry, end];
  return {
    parts,
    size: parts.reduce((sum, { length }) => sum + length, 0),
    tag: createHash('sha256').update(sha256).update(manifest).digest('hex'),
  };
}

function manifestFor(template: Manifest, { organization, server, url }: BundledServer): object {
  const { user_config: _, ...rest } = template;
  const { env: __, ...config } = rest.server.mcp_config;
  const { host } = new URL(url);
  return {
    ...rest,
    // An assistant keeps one bundle of each name. Slugs contain no dots, so two servers never share a name.
    name: ['latchkey', host.replaceAll(/[^a-z0-9.-]/g, '-'), organization, server].join('.'),
    display_name: `${organization}/${server} (Latchkey)`,
    description: `Connects to the MCP server ${organization}/${server} at ${host}. Your browser opens to sign you in.`,
    server: {
      ...rest.server,
      mcp_config: {
        ...config,
        args: config.args.map((word) => (word === '${user_config.url}' ? url : word)),
      },
    },
  };
}

/** Where the central directory of a zip file without a comment begins and ends, and how many entries it has. */
function endOf(zip: Buffer): { directoryAt: number; count: number; endAt: number } {
  const endAt = zip.length - endLength;
  return {
    directoryAt: zip.readUInt32LE(endAt + 16),
    count: zip.readUInt16LE(endAt + 10),
    endAt,
  };
}

/** An entry of the central directory is followed by its name, extra fields and comment. */
function lengthOfEntry(zip: Buffer, at: number): number {
  const lengths = [28, 30, 32].map((offset) => zip.readUInt16LE(at + offset));
  return lengths.reduce((sum, length) => sum + length, entryLength);
}
