/** Types for the part of cross-spawn that the proxy uses; the package has none. */
declare module 'cross-spawn' {
  import type { spawn } from 'node:child_process';

  const crossSpawn: typeof spawn;
  export default crossSpawn;
}
