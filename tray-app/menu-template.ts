import type { MenuAction, MenuItem } from '#menu';

/** An item as Electron's menus take it. */
export type MenuTemplate = {
  type?: 'separator' | 'checkbox';
  label?: string;
  enabled?: boolean;
  checked?: boolean;
  click?: () => void;
  submenu?: MenuTemplate[];
};

export function menuTemplate(item: MenuItem, act: (action: MenuAction) => void): MenuTemplate {
  if (item.kind === 'separator') return { type: 'separator' };
  const { label, enabled, checked, action, items } = item;
  return {
    label,
    enabled,
    ...(checked !== undefined && { type: 'checkbox', checked }),
    ...(action && { click: () => act(action) }),
    ...(items && { submenu: items.map((one) => menuTemplate(one, act)) }),
  };
}
