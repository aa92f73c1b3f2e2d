import { contextBridge, ipcRenderer } from 'electron';
import { channels, overview, shapes, type Bridge } from '#model/contract';

/** Everything in the program that a page can reach. */
const bridge: Bridge = {
  async ask(operation, input) {
    const { input: shape, output } = shapes[operation];
    const request = { operation, input: shape.parse(input) };
    return output.parse(await ipcRenderer.invoke(channels.ask, request));
  },
  onChange(listener) {
    ipcRenderer.on(channels.changed, (_event, changed) => listener(overview.parse(changed)));
  },
};

contextBridge.exposeInMainWorld('latchkey', bridge);
