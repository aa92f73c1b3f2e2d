import {
  decideAccessRequest,
  insertAccessRequest,
  listRequestableServers,
} from '#server/db/access-requests';
import { insertAuditEvent } from '#server/db/audit';
import { findUserByEmail } from '#server/db/people';
import { setServerAccess } from '#server/db/server-access';
import { findServer } from '#server/db/servers';
import { dashboardVisitor, signInAs } from '#support/dashboard-visitor';
import type { Scene } from './scene.ts';

const viola = 'viola@example.com';
const long =
  'The quarter ends on Friday, and the board wants the numbers of every warehouse with the open tickets beside them, for the last three years. Without access I would have to ask Mark for each export, who is on leave until the week after.';

/** Servers to which people may request access: a person who asks, and an administrator who decides. */
export const accessScenes: Scene = async ({ dana, browser, furnished, album }) => {
  const { server, stores, organizationId } = furnished;
  const { db } = stores;
  const now = Math.floor(Date.now() / 1000);
  await dana.open('/people/requests');
  await album.take(dana.page, 'requests-none');
  for (const name of ['tickets', 'warehouse']) {
    const { id = '' } = (await findServer(db, 'acme', name)) ?? {};
    const choice = { access: 'groups', groupIds: ['group_finance'], isRequestable: true } as const;
    await setServerAccess(db, id, choice);
  }
  const { id: userId = '' } = (await findUserByEmail(db, viola)) ?? {};
  const visitor = await dashboardVisitor(browser, server);
  await signInAs(visitor, server, viola);
  await visitor.open('/my-servers');
  await album.take(visitor.page, 'my-servers-askable');
  await visitor.open('/servers/warehouse');
  await album.take(visitor.page, 'server-outside-groups');
  await visitor.open('/servers');
  await album.take(visitor.page, 'servers-no-access', { isTable: true });
  for (const page of ['tools', 'keys']) {
    await visitor.open(`/servers/warehouse/${page}`);
    await album.take(visitor.page, `server-${page}-closed`);
  }
  const mark = await dashboardVisitor(browser, server);
  await signInAs(mark, server, 'mark@example.com');
  await mark.open('/servers/warehouse/try');
  await album.take(mark.page, 'server-try-closed');
  await mark.context.close();
  const [first] = await listRequestableServers(db, userId, organizationId, 1);
  await visitor.open(`/servers/${first?.name}/ask`);
  await album.take(visitor.page, 'ask-access');
  await visitor.press('Send request');
  await album.take(visitor.page, 'ask-access-empty');
  const of = { organizationId, userId };
  await insertAccessRequest(
    db,
    { ...of, id: 'request_1', server: 'tickets', reason: 'x' },
    now - 90,
  );
  const no = {
    status: 'declined',
    by: 'operator',
    at: now - 60,
    answer: 'Ask Mark first.',
  } as const;
  await decideAccessRequest(db, organizationId, 'request_1', no);
  const asked = { ...of, id: 'request_2', server: 'warehouse', reason: long };
  await insertAccessRequest(db, asked, now - 30);
  await visitor.open('/my-servers');
  await album.take(visitor.page, 'my-servers-asked');
  await visitor.open('/servers/warehouse/tools');
  await album.take(visitor.page, 'server-tools-asked');
  await visitor.open('');
  await album.take(visitor.page, 'home-of-a-member');
  await dana.open('/people/requests');
  await album.take(dana.page, 'requests', { isTable: true });
  await dana.open('/people/requests?state=decided');
  await album.take(dana.page, 'requests-decided', { isTable: true });
  await dana.open('/people/requests/request_2/grant');
  await album.take(dana.page, 'request-grant');
  await dana.open('/people/requests/request_2/decline');
  await album.take(dana.page, 'request-decline');
  await dana.open('/my-servers');
  await album.take(dana.page, 'my-servers');
  await visitor.open('/people');
  const refused = { organization: 'acme', address: undefined, requestId: undefined };
  for (const [actor, action, target] of [
    ['anonymous', 'sign-in', 'password'],
    ['operator', 'server.read', 'server:acme/slaes'],
    [`user:${userId}`, 'key.create', 'server:acme/library'],
  ] as const) {
    const event = { ...refused, at: now, actor, action, target, outcome: 'refused' } as const;
    await insertAuditEvent(db, event);
  }
  await dana.open('');
  await album.take(dana.page, 'overview-denied');
  await dana.open('/groups/group_finance');
  await album.take(dana.page, 'group-in-use');
  await dana.open('/servers/tickets/access');
  await album.take(dana.page, 'server-access-asked');
};
