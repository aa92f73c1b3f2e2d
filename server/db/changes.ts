/** Change tokens of the database. */
export interface ChangeStore {
  /** A token that changes whenever any process writes to the database. Very cheap; on PostgreSQL up to half a second old. */
  changeToken(): string;

  /** The same token, read after this call. Costs a query on PostgreSQL. */
  readonly newestChangeToken: () => Promise<string>;

  /** A token that changes with the data listed on pages of the organization, or of one server. */
  stateOf(organization: string, server: string | undefined): Promise<string>;
}
