import { contextBridge, ipcRenderer } from 'electron';
import { channels, overview, shapes, type Bridge } from '#contract';

/** The one thing of the program that a page can see. */
const bridge: Bridge = {
  async ask(operation, input) {
    const { input: shape, output } = shapes[operation];
    const asked = { operation, input: shape.parse(input) };
    return output.parse(await ipcRenderer.invoke(channels.ask, asked));
  },
  onChange(listener) {
    ipcRenderer.on(channels.changed, (_event, news) => listener(overview.parse(news)));
  },
};

contextBridge.exposeInMainWorld('latchkey', bridge);
