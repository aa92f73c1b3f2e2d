import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest();
const base64url = (data: Buffer) => data.toString('base64url');

/** The parts of an answer that a test may get wrong. */
export interface Deviation {
  readonly origin?: string;
  readonly rpId?: string;
  readonly counter?: number;
  readonly challenge?: string;
  readonly isUserVerified?: boolean;
  readonly userHandle?: string;
}

/** A passkey in software, ES256, that answers as a browser would, or wrongly where a test says so. */
export function softAuthenticator(base: string) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const idBytes = randomBytes(32);
  const id = base64url(idBytes);
  const envelope = { id, rawId: id, type: 'public-key', clientExtensionResults: {} };
  let counter = 0;

  const clientData = (type: string, challenge: string, { origin = base }: Deviation) =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }));
  const authenticatorData = (
    { rpId = new URL(base).hostname, isUserVerified = true, ...given }: Deviation,
    attested?: Buffer,
  ) => {
    const flags = 1 | (isUserVerified ? 4 : 0) | (attested ? 64 : 0);
    const count = Buffer.alloc(4);
    count.writeUInt32BE(given.counter ?? (counter += 1));
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), count, attested ?? Buffer.alloc(0)]);
  };

  return {
    id,
    register(options: { challenge: string }, wrong: Deviation = {}) {
      const idLength = Buffer.from([0, idBytes.length]);
      // CBOR: {1: 2, 3: -7, -1: 1, -2: x, -3: y}. RFC 9052 §7.1
      const coseKey = Buffer.concat([
        Buffer.from('a5010203262001215820', 'hex'),
        Buffer.from(x, 'base64url'),
        Buffer.from('225820', 'hex'),
        Buffer.from(y, 'base64url'),
      ]);
      const attested = Buffer.concat([Buffer.alloc(16), idLength, idBytes, coseKey]);
      const data = authenticatorData(wrong, attested);
      // CBOR: {"fmt": "none", "attStmt": {}, "authData": data}
      const attestation = Buffer.concat([
        Buffer.from('a363666d74646e6f6e656761747453746d74a068617574684461746158', 'hex'),
        Buffer.from([data.length]),
        data,
      ]);
      const challenge = wrong.challenge ?? options.challenge;
      const response = {
        clientDataJSON: base64url(clientData('webauthn.create', challenge, wrong)),
        attestationObject: base64url(attestation),
        transports: ['internal'],
      };
      return { ...envelope, response };
    },
    signIn(options: { challenge: string }, wrong: Deviation = {}) {
      const challenge = wrong.challenge ?? options.challenge;
      const client = clientData('webauthn.get', challenge, wrong);
      const data = authenticatorData(wrong);
      const signature = sign('sha256', Buffer.concat([data, sha256(client)]), privateKey);
      const response = {
        clientDataJSON: base64url(client),
        authenticatorData: base64url(data),
        signature: base64url(signature),
        ...(wrong.userHandle !== undefined && {
          userHandle: base64url(Buffer.from(wrong.userHandle)),
        }),
      };
      return { ...envelope, response };
    },
  };
}
