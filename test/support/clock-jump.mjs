// Preloaded into a real process: each SIGUSR2 sets its wall clock by CLOCK_JUMP_MS.
const now = Date.now.bind(Date);
let apart = 0;
Date.now = () => now() + apart;
process.on('SIGUSR2', () => {
  apart += Number(process.env.CLOCK_JUMP_MS);
  process.stderr.write('the clock was set\n');
});
