/** Encrypts secrets that must remain readable. The master key behind it is never part of a backup. */
export interface Sealing {
  /** What is sealed for one purpose cannot be opened for another. */
  seal(purpose: string, plaintext: string): string;

  /** Throws unless it was sealed by this key for this purpose. */
  open(purpose: string, sealed: string): string;

  /** An authentication code over `text` for one purpose that only this server can compute; base64url, 256 bits. */
  mac(purpose: string, text: string): string;
}
