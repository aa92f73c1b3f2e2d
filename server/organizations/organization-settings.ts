/** What an organization asks of its people and lets them do. */
export interface OrganizationSettings {
  /** Whether only browsers that proved two factors may do anything here. */
  readonly secondFactorRequired: boolean;
  /**
   * Whether applications that described or registered themselves have access, where members allow it. Turned off, it
   * suspends what members allowed before, rather than revoking it.
   */
  readonly openClientsAllowed: boolean;
}

/** Where an organization's settings are kept. */
export interface OrganizationSettingsStore {
  /** By the organization's name; `undefined` when there is none, or it is disabled. */
  of(organization: string): Promise<OrganizationSettings | undefined>;

  /** Changes what is given. */
  update(organizationId: string, change: Partial<OrganizationSettings>): Promise<void>;
}
