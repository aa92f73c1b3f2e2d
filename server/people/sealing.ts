/** Encrypts what must be readable again; the master key behind it is no part of a backup. */
export interface Sealing {
  /** What is sealed for one purpose opens for no other. */
  seal(purpose: string, plaintext: string): string;

  /** Throws when it was not sealed by this key for this purpose. */
  open(purpose: string, sealed: string): string;

  /** A code over `text` for one purpose that only this server can make; base64url, 256 bits. */
  mac(purpose: string, text: string): string;
}
