import 'reflect-metadata';
import { createPrivateKey, webcrypto } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

/** A certificate and its key, both PEM. */
export type Certificate = { cert: string; key: string };

export type CertificateOptions = {
  /** DNS names; by default `localhost` and the address 127.0.0.1. */
  hosts?: readonly string[];
  notBefore?: Date;
  notAfter?: Date;
};

/** An authority that makes certificates for tests. */
export type Authority = {
  cert: string;
  issue(commonName: string, options?: CertificateOptions): Promise<Certificate>;
};

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const dayMs = 86_400_000;
const days = (count: number) => new Date(Date.now() + count * dayMs);

export async function authority(name = 'Test Authority'): Promise<Authority> {
  const keys = await makeKeys();
  const root = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${name}`,
    keys,
    signingAlgorithm: algorithm,
    notBefore: days(-30),
    notAfter: days(30),
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return {
    cert: root.toString('pem'),
    async issue(commonName, { hosts, notBefore = days(-20), notAfter = days(20) } = {}) {
      const own = await makeKeys();
      const certificate = await X509CertificateGenerator.create({
        subject: `CN=${commonName}`,
        issuer: root.subject,
        publicKey: own.publicKey,
        signingKey: keys.privateKey,
        signingAlgorithm: algorithm,
        notBefore,
        notAfter,
        extensions: [
          names(hosts),
          await AuthorityKeyIdentifierExtension.create(keys.publicKey),
          await SubjectKeyIdentifierExtension.create(own.publicKey),
        ],
      });
      return { cert: certificate.toString('pem'), key: await pemOf(own.privateKey) };
    },
  };
}

/** A self-signed certificate. */
export async function selfSigned(): Promise<Certificate> {
  const keys = await makeKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: 'CN=alone',
    keys,
    signingAlgorithm: algorithm,
    notBefore: days(-1),
    notAfter: days(1),
    extensions: [names(undefined)],
  });
  return { cert: certificate.toString('pem'), key: await pemOf(keys.privateKey) };
}

function names(hosts: readonly string[] | undefined): SubjectAlternativeNameExtension {
  return new SubjectAlternativeNameExtension(
    hosts
      ? hosts.map((value) => ({ type: 'dns' as const, value }))
      : [
          { type: 'ip', value: '127.0.0.1' },
          { type: 'dns', value: 'localhost' },
        ],
  );
}

async function makeKeys() {
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    .export({ format: 'pem', type: 'pkcs8' })
    .toString();
}

/** The same key, encrypted with `passphrase`. */
export function sealed(key: string, passphrase: string): string {
  return createPrivateKey(key)
    .export({ format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase })
    .toString();
}
