import { readFileSync } from 'node:fs';
import { X509Certificate } from 'node:crypto';
import { createRequire } from 'node:module';
import type tls from 'node:tls';
import type { SecureContext } from 'node:tls';
import { HttpError, platformCode } from './http-error.ts';
import type { NetworkSettings } from './network-settings.ts';

type Tls = Pick<typeof tls, 'createSecureContext' | 'getCACertificates'>;

/**
 * Whom TLS trusts, and who we are for it: Node's roots (with `NODE_EXTRA_CA_CERTS`) and those of
 * `caFile`; with `system` also those of the operating system, which take 0.1 s to read.
 *
 * @throws {HttpError} `settings`
 */
export function trust(settings: NetworkSettings, system: boolean): SecureContext {
  const { caFile, clientCertificateFile, clientKeyFile, clientKeyPassphraseSecret } = settings;
  // Imported, it would be loaded at every start of the bundled program.
  const { createSecureContext, getCACertificates }: Tls = createRequire(import.meta.url)(
    'node:tls',
  );
  const ca = [
    ...getCACertificates('default'),
    ...(caFile === undefined ? [] : [authorities(caFile)]),
    ...(system ? getCACertificates('system') : []),
  ];
  if (clientCertificateFile === undefined || clientKeyFile === undefined)
    return createSecureContext({ ca });
  const cert = contentOf(clientCertificateFile, '--client-certificate-file');
  const key = contentOf(clientKeyFile, '--client-key-file');
  const passphrase = clientKeyPassphraseSecret;
  try {
    return createSecureContext({ ca, cert, key, ...(passphrase && { passphrase }) });
  } catch (error) {
    const locked = /bad decrypt|interrupted or cancelled|password|empty/i.test(String(error));
    throw new HttpError(
      'settings',
      locked
        ? `${clientKeyFile}: the key does not open`
        : `${clientCertificateFile} and ${clientKeyFile} are no certificate and its key`,
      {
        remedy: locked
          ? 'set its passphrase in LATCHKEY_CLIENT_KEY_PASSPHRASE'
          : 'name two PEM files that belong together, unencrypted or with LATCHKEY_CLIENT_KEY_PASSPHRASE',
        cause: error,
      },
    );
  }
}

/** Whether reading the system's roots may help. */
export function isUnknownIssuer(error: unknown): boolean {
  return /^(UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|CERT_UNTRUSTED)$/.test(
    platformCode(error),
  );
}

function authorities(path: string): string {
  const content = contentOf(path, '--ca-file');
  const pem = content.toString('latin1');
  if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem;
  try {
    return new X509Certificate(content).toString();
  } catch (error) {
    throw new HttpError('settings', `${path}: holds no certificate`, {
      remedy: 'name a file of certificates in PEM with --ca-file (LATCHKEY_CA_FILE)',
      cause: error,
    });
  }
}

function contentOf(path: string, option: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new HttpError('settings', `${path}: cannot be read (${platformCode(error)})`, {
      remedy: `name a file that can be read with ${option}`,
      cause: error,
    });
  }
}
