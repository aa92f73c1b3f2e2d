// Read by Electron before the app: keeps what the app hands to its tray, which nothing else can be asked for.
const { Tray } = require('electron');

globalThis.trays = [];
for (const method of ['setToolTip', 'setContextMenu']) {
  const original = Tray.prototype[method];
  Tray.prototype[method] = function (value) {
    if (!globalThis.trays.includes(this)) globalThis.trays.push(this);
    this[`${method}Was`] = value;
    return original.call(this, value);
  };
}
