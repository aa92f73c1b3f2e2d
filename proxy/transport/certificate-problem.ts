import { platformCode } from './http-error.ts';

const authority =
  'if this is a company network, ask for its root certificate and name it with --ca-file (LATCHKEY_CA_FILE)';
const ownCertificate =
  'name a certificate that it takes with --client-certificate-file and --client-key-file';

type Problem = { problem: string; remedy: string };

const problems: [RegExp, Problem][] = [
  [
    /^DEPTH_ZERO_SELF_SIGNED_CERT$/,
    {
      problem: 'its certificate is self-signed, by nobody this machine trusts',
      remedy:
        'if you trust it, save that certificate and name it with --ca-file (LATCHKEY_CA_FILE)',
    },
  ],
  [
    /^(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|CERT_UNTRUSTED)$/,
    {
      problem: 'its certificate comes from an authority this machine does not know',
      remedy: authority,
    },
  ],
  [
    /^UNABLE_TO_VERIFY_LEAF_SIGNATURE$/,
    {
      problem:
        'its certificate comes from an authority this machine does not know, or the server leaves out the certificate in between',
      remedy: `${authority}; else tell whoever runs the server that its chain is incomplete`,
    },
  ],
  [
    /^CERT_HAS_EXPIRED$/,
    {
      problem: 'its certificate has expired',
      remedy: 'tell whoever runs the server, and see that the clock of this machine is right',
    },
  ],
  [
    /^CERT_NOT_YET_VALID$/,
    {
      problem: 'its certificate is not valid yet',
      remedy: 'see that the clock of this machine is right',
    },
  ],
  [
    /^CERT_REVOKED$/,
    { problem: 'its certificate was revoked', remedy: 'tell whoever runs the server' },
  ],
  [
    /ALERT_(CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE)$/,
    {
      problem: 'it refuses the connection, most likely for want of a certificate of ours',
      remedy: ownCertificate,
    },
  ],
  [
    /ALERT_(BAD_CERTIFICATE|UNKNOWN_CA|CERTIFICATE_UNKNOWN|CERTIFICATE_EXPIRED|ACCESS_DENIED|UNSUPPORTED_CERTIFICATE)$/,
    { problem: 'it does not accept our certificate', remedy: ownCertificate },
  ],
  [
    /(WRONG_VERSION_NUMBER|HTTP_REQUEST|PACKET_LENGTH_TOO_LONG|RECORD_LAYER_FAILURE)$/,
    {
      problem: 'it does not speak TLS',
      remedy: 'check scheme and port of the URL',
    },
  ],
];

/** What TLS did not like, and what to do; `undefined` when `error` is about something else. */
export function certificateProblem(error: unknown): Problem | undefined {
  const code = platformCode(error);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names = error instanceof Error && 'cert' in error ? altNames(error.cert) : '';
    return {
      problem: `its certificate is for another host${names && ` (${names})`}`,
      remedy: 'check the host in the URL, or tell whoever runs the server',
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
