import { accessRequestOperations } from './access-requests.ts';
import { agentOperations } from './agents.ts';
import { attentionOperations } from './attention.ts';
import { auditOperations } from './audit.ts';
import { collectionOperations } from './collections.ts';
import { contentOperations } from './call-contents.ts';
import { callOperations } from './calls.ts';
import { clientSecretOperations } from './client-secrets.ts';
import { clientOperations } from './clients.ts';
import { domainOperations } from './domains.ts';
import { deploymentOperations } from './deployment.ts';
import { deviceOperations } from './devices.ts';
import { grantOperations } from './grants.ts';
import { groupOperations } from './groups.ts';
import { serverGroupOperations } from './server-access.ts';
import { assertionOperations } from './identity-assertions.ts';
import { organizationClientOperations, workloadOperations } from './workloads.ts';
import { providerOperations } from './identity-providers.ts';
import { linkedMemberOperations } from './linked-members.ts';
import { invitationBatchOperations } from './invitation-batches.ts';
import { invitationOperations } from './invitations.ts';
import { keyOperations } from './keys.ts';
import { leaverOperations } from './leavers.ts';
import { mailOperations } from './mail.ts';
import { offboardingOperations } from './offboarding.ts';
import { noticeOperations } from './notices.ts';
import type { Operation } from './operation.ts';
import { organizationOperations, settingsOperations } from './organizations.ts';
import { personOperations } from './people.ts';
import { personPseudonymize } from './pseudonyms.ts';
import { scimOperations } from './scim.ts';
import { outboundOperations } from './outbound.ts';
import { searchOperations } from './search.ts';
import { serverOperations } from './servers.ts';
import { tokenOperations } from './tokens.ts';
import { toolRuleOperations } from './tool-rules.ts';
import { toolOperations } from './tools.ts';
import { accessRead, accessSet } from './upstream-access.ts';
import { connectionOperations } from './upstream-connections.ts';
import { headerOperations } from './upstream-headers.ts';
import { usageOperations } from './usage.ts';
import { userOperations } from './users.ts';
import { webhookOperations } from './webhooks.ts';

/** All operations, in the order of the API's document. */
export const operations: readonly Operation[] = [
  ...organizationOperations,
  ...attentionOperations,
  ...searchOperations,
  ...serverOperations,
  ...collectionOperations,
  ...toolOperations,
  ...toolRuleOperations,
  ...clientOperations,
  ...clientSecretOperations,
  ...organizationClientOperations,
  ...workloadOperations,
  ...keyOperations,
  ...agentOperations,
  ...tokenOperations,
  ...serverGroupOperations,
  ...accessRequestOperations,
  ...deploymentOperations,
  accessRead,
  accessSet,
  ...headerOperations,
  ...connectionOperations,
  ...personOperations,
  ...offboardingOperations,
  personPseudonymize,
  ...invitationOperations,
  ...invitationBatchOperations,
  ...groupOperations,
  ...providerOperations,
  ...linkedMemberOperations,
  ...assertionOperations,
  ...domainOperations,
  ...scimOperations,
  ...leaverOperations,
  ...settingsOperations,
  ...grantOperations,
  ...deviceOperations,
  ...auditOperations,
  ...callOperations,
  ...contentOperations,
  ...usageOperations,
  ...webhookOperations,
  ...mailOperations,
  ...noticeOperations,
  ...outboundOperations,
  ...userOperations,
];
