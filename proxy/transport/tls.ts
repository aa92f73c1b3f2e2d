import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { SecureContext } from 'node:tls';
import type tls from 'node:tls';
import { HttpError, platformCode } from './http-error.ts';
import type { NetworkSettings } from './network-settings.ts';

type Tls = Pick<typeof tls, 'createSecureContext' | 'getCACertificates'>;

/**
 * The authorities that TLS trusts, and our client certificate. Trusts Node's roots (with `NODE_EXTRA_CA_CERTS`) and those of
 * `caFile`; with `system` also those of the operating system, which take 0.1 s to read.
 *
 * @throws {HttpError} `settings`
 */
export function trust(settings: NetworkSettings, system: boolean): SecureContext {
  const { caFile, clientCertificateFile, clientKeyFile, clientKeyPassphraseSecret } = settings;
  // A static import would load it at every start of the bundled program.
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
        ? `${clientKeyFile}: the key cannot be decrypted`
        : `${clientCertificateFile} and ${clientKeyFile} are not a certificate and its key`,
      {
        remedy: locked
          ? 'set its passphrase in LATCHKEY_CLIENT_KEY_PASSPHRASE'
          : 'use two matching PEM files, unencrypted or with LATCHKEY_CLIENT_KEY_PASSPHRASE',
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
    throw new HttpError('settings', `${path}: contains no certificate`, {
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
      remedy: `choose a readable file with ${option}`,
      cause: error,
    });
  }
}

const authority =
  'if this is a company network, ask for its root certificate and name it with --ca-file (LATCHKEY_CA_FILE)';
const ownCertificate =
  'set a certificate that it accepts with --client-certificate-file and --client-key-file';

type Problem = { problem: string; remedy: string };

const problems: [RegExp, Problem][] = [
  [
    /^DEPTH_ZERO_SELF_SIGNED_CERT$/,
    {
      problem: 'its certificate is self-signed and not trusted on this computer',
      remedy:
        'if you trust it, save that certificate and name it with --ca-file (LATCHKEY_CA_FILE)',
    },
  ],
  [
    /^(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|CERT_UNTRUSTED)$/,
    {
      problem: 'its certificate comes from an authority that this computer does not trust',
      remedy: authority,
    },
  ],
  [
    /^UNABLE_TO_VERIFY_LEAF_SIGNATURE$/,
    {
      problem:
        'its certificate comes from an authority that this computer does not trust, or the server does not send the intermediate certificate',
      remedy: `${authority}; otherwise tell the administrator of the server that the certificate chain is incomplete`,
    },
  ],
  [
    /^CERT_HAS_EXPIRED$/,
    {
      problem: 'its certificate has expired',
      remedy: 'contact the administrator of the server, and check the clock of this computer',
    },
  ],
  [
    /^CERT_NOT_YET_VALID$/,
    {
      problem: 'its certificate is not valid yet',
      remedy: 'check the clock of this computer',
    },
  ],
  [
    /^CERT_REVOKED$/,
    { problem: 'its certificate was revoked', remedy: 'contact the administrator of the server' },
  ],
  [
    /ALERT_(CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE)$/,
    {
      problem: 'it refuses the connection, most likely because it requires a client certificate',
      remedy: ownCertificate,
    },
  ],
  [
    /ALERT_(BAD_CERTIFICATE|UNKNOWN_CA|CERTIFICATE_UNKNOWN|CERTIFICATE_EXPIRED|ACCESS_DENIED|UNSUPPORTED_CERTIFICATE)$/,
    { problem: 'it does not accept the client certificate', remedy: ownCertificate },
  ],
  [
    /(WRONG_VERSION_NUMBER|HTTP_REQUEST|PACKET_LENGTH_TOO_LONG|RECORD_LAYER_FAILURE)$/,
    {
      problem: 'it does not speak TLS',
      remedy: 'check scheme and port of the URL',
    },
  ],
];

/** The problem with a certificate and its remedy; `undefined` if `error` has another cause. */
export function certificateProblem(error: unknown): Problem | undefined {
  const code = platformCode(error);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names = error instanceof Error && 'cert' in error ? altNames(error.cert) : '';
    return {
      problem: `its certificate is for another host${names && ` (${names})`}`,
      remedy: 'check the host in the URL, or contact the administrator of the server',
    };
  }
  const known = problems.find(([shape]) => shape.test(code))?.[1];
  return known && { ...known, problem: `${known.problem} (${code})` };
}

function altNames(certificate: unknown): string {
  if (typeof certificate !== 'object' || certificate === null) return '';
  const names = 'subjectaltname' in certificate ? certificate.subjectaltname : '';
  return typeof names === 'string' ? names.slice(0, 200) : '';
}
