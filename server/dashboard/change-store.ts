/** Tells that something was written, by whatever process. */
export interface ChangeStore {
  /** Another text than before, once anything at all was written. Costs next to nothing. */
  written(): string;

  /** Another text than before, once something changed that pages of the organization, or of one server, list. */
  stateOf(organization: string, server: string | undefined): Promise<string>;
}
