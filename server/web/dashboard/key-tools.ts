import { keyUpdate } from '#admin/keys';
import { seeOther } from '#web/page-request';
import { keyWords } from '#web/tool-choice';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard } from './guard.ts';
import { keyOf, toManage } from './keys.ts';
import { choosableTools } from './known-tools.ts';
import { serverCrumbs, serverOf, serverPath } from './server-tabs.ts';

/** `/servers/{server}/keys/{keyId}/tools`: what a key may use of its server. */
export function keyToolRoutes(guard: DashboardGuard): void {
  formRoutes(guard, '/servers/:server/keys/:keyId/tools', toManage, keyTools);
}

const keyTools: FormRoutes = {
  form: formFor(keyUpdate),
  async page(visit, request, { ports }) {
    const { name: server } = await serverOf(visit, request);
    const key = await keyOf(visit, request);
    const items = await choosableTools(visit, server, ports);
    const keys = `${serverPath(visit.organization, server)}/keys`;
    const own = { text: key.name, href: `${keys}/${key.id}` };
    return {
      heading: `Tools of the API key “${key.name}”`,
      lead: 'The change takes effect on the next call.',
      refused: 'Not saved yet',
      verb: 'Save',
      cancel: own.href,
      crumbs: serverCrumbs(visit, { text: 'API keys', href: keys }, own, { text: 'Tools' }),
      record: key,
      shownFields: { focus: false, here: { tools: { tools: { items, words: keyWords } } } },
    };
  },
  async act(visit, entered, request, reply) {
    const { id: keyId, server } = await keyOf(visit, request);
    await visit.perform(keyUpdate, { ...entered, keyId });
    const home = `${serverPath(visit.organization, server ?? '')}/keys`;
    return seeOther(reply, `${home}/${keyId}?done=tools`);
  },
};
