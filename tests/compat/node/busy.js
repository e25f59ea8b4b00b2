// A busy program under @pyroscope/nodejs: burns CPU time and keeps memory in functions whose names the test then asks for.
import Pyroscope from '@pyroscope/nodejs';

const used = () => process.cpuUsage().user / 1000;

function burnHotLoop(milliseconds) {
  const until = used() + milliseconds;
  let n = 0;
  while (used() < until) {
    for (let i = 0; i < 10_000; i++) n ^= i;
  }
  return n;
}

function burnTagged(milliseconds) {
  Pyroscope.wrapWithLabels({ job: 'tagged' }, () => burnHotLoop(milliseconds));
}

// Some 30 MB: of every 512 KB the profiler of the heap takes a sample, by chance, so that of little there may be none.
function keepMemory() {
  return Array.from({ length: 400_000 }, (_, i) => ({ text: 'kept ' + i }));
}

const pause = () => new Promise((done) => setTimeout(done, 20));
const [serverAddress, appName] = process.argv.slice(2);
Pyroscope.init({ serverAddress, appName, tags: { kit: 'node', 'team.name': 'a b+c' }, flushIntervalMs: 500, wall: { collectCpuTime: true } });
Pyroscope.start();
const kept = keepMemory();
for (let round = 0; round < 2; round++) {
  burnHotLoop(500);
  burnTagged(300);
  await pause();
}
await Pyroscope.stop();
console.log('done', kept.length);
