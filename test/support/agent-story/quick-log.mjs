// Preloaded into the reference server, so that its simulated log speaks four times a second instead of every five seconds.
const every = globalThis.setInterval;
globalThis.setInterval = (act, ms, ...rest) => every(act, ms === 5000 ? 250 : ms, ...rest);
