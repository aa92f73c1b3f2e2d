// Finds out from the URL of an OpenID provider's issuer who can get an account there.

/** Names of Microsoft tenants that cover more than one organization; the last one is for personal accounts. */
const sharedTenants = new Set([
  'common',
  'organizations',
  'consumers',
  '9188040d-6c67-4c5b-b112-36a304b66dad',
]);
const microsoftHosts =
  /(?:^|\.)(?:microsoftonline\.(?:com|us)|partner\.microsoftonline\.cn|windows\.net)$/;
/** Issuers where anybody can get an account. */
const publicHosts = new Set([
  'accounts.google.com',
  'appleid.apple.com',
  'gitlab.com',
  'login.salesforce.com',
  'slack.com',
  'www.linkedin.com',
]);

/** Whether people of more than one organization sign in at an issuer, as far as its URL tells. */
export function isSharedIssuer(issuer: URL): boolean {
  return publicHosts.has(issuer.hostname) || hasManyTenants(issuer);
}

/** Whether an issuer stands for several directories, each of which sends an issuer of its own. Microsoft Entra ID only. */
export function hasManyTenants({ hostname, pathname }: URL): boolean {
  const tenant = pathname.split('/').find(Boolean) ?? '';
  return microsoftHosts.test(hostname) && sharedTenants.has(tenant.toLowerCase());
}

/** Whether an issuer is that of Google, for personal accounts and for those of all organizations. */
export function isGoogle({ hostname }: URL): boolean {
  return hostname === 'accounts.google.com';
}
