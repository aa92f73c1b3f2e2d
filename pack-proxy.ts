/**
 * Writes the proxy's package to stdout. A server that runs from these sources starts it when somebody
 * downloads the proxy, in a process of its own: the bundler is gone again afterwards.
 */
import { proxyPackage } from './proxy-package.ts';

const { bytes } = await proxyPackage();
process.stdout.write(bytes);
