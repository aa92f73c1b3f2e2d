import { strToU8, zipSync } from 'fflate';

/** Stands for the bundle of a build; the manifest is the last file. */
export const bundleOfBuild = Buffer.from(
  zipSync({
    'bin/latchkey.js': strToU8('the proxy '.repeat(100)),
    'manifest.json': strToU8(
      JSON.stringify({
        manifest_version: '0.3',
        name: 'latchkey',
        version: '1.2.3',
        description: 'MCP proxy',
        author: { name: 'The Latchkey authors' },
        server: {
          type: 'node',
          entry_point: 'bin/latchkey.js',
          mcp_config: {
            command: 'node',
            args: ['${__dirname}/bin/latchkey.js', 'connect', '${user_config.url}'],
            env: { LATCHKEY_API_KEY: '${user_config.api_key}' },
          },
        },
        user_config: {
          url: { type: 'string', title: 'URL', description: 'The MCP endpoint', required: true },
          api_key: { type: 'string', title: 'API key', description: 'mcp_…', sensitive: true },
        },
      }),
    ),
  }),
);
