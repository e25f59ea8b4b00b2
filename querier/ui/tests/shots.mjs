// Pictures of every page of a running server, in both themes, 1400 and 390 px wide, for a look at what no test sees.
// The server should have the profiles of tests/lib/demo.py. Pages are waited for, not slept for.
// Usage: node tests/shots.mjs http://127.0.0.1:4040 DIRECTORY [PART-OF-A-NAME...]
import { chromium } from '@playwright/test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', HEAP = 'memory:inuse_space:bytes:space:bytes';
const WALL = 'wall:wall:microseconds:wall:microseconds';
const of = (service, type = CPU) => `query=${encodeURIComponent(`${type}{service_name="${service}"}`)}`;
const HOURS = 'from=now-6h';
const SLOW = encodeURIComponent('compress/flate.(*compressor).deflate');
/** Name, address, and what must be there before the picture is taken. */
const PAGES = [
  ['services', `/?${HOURS}`, '.service'],
  ['types', `/types?${of('shop-api')}&${HOURS}`, 'svg.spark'],
  ['flame-go', `/flame?${of('shop-api')}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-go-heap', `/flame?${of('shop-api', HEAP)}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-java', `/flame?${of('warehouse', 'process_cpu:samples:count:cpu:nanoseconds')}&${HOURS}`, 'main'],
  ['flame-java-cpu', `/flame?${of('orders')}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-node', `/flame?${of('storefront')}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-node-wall', `/flame?${of('storefront', WALL)}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-rust', `/flame?${of('thumbnails')}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-kernel', `/flame?${of('gateway')}&${HOURS}`, 'canvas[data-drawn]'],
  ['flame-python', `/flame?${of('recommender', 'wall:Wall time:μs::')}&${HOURS}`, 'main'],
  ['flame-php', `/flame?${of('blog', 'wall:wall_time:nanoseconds:wall_time:nanoseconds')}&${HOURS}`, 'main'],
  ['table', `/flame?${of('shop-api')}&${HOURS}&show=table`, '.trow'],
  ['sandwich', `/flame?${of('shop-api')}&${HOURS}&show=sandwich&fn=${SLOW}`, '.halves'],
  ['search', `/flame?${of('shop-api')}&${HOURS}&search=compress`, '.hits b'],
  ['labels', `/explore?${of('shop-api')}&${HOURS}&groupBy=pod`, '.u-over'],
  ['labels-versions', `/explore?${of('shop-api')}&${HOURS}&groupBy=version`, '.u-over'],
  ['compare', `/compare?${of('shop-api')}&${HOURS}&leftFrom=now-1h&leftUntil=now-30m&rightFrom=now-30m&rightUntil=now`, '.moves'],
  ['compare-share', `/compare?${of('shop-api')}&${HOURS}&leftFrom=now-1h&leftUntil=now-30m&rightFrom=now-30m&rightUntil=now&norm=share`, '.moves'],
  ['compare-classic', `/compare?${of('shop-api')}&${HOURS}&leftFrom=now-1h&leftUntil=now-30m&rightFrom=now-30m&rightUntil=now&palette=classic`, '.moves'],
  ['compare-empty', `/compare?${of('shop-api')}&${HOURS}&leftFrom=now-20d&leftUntil=now-19d`, '.sides'],
  ['nothing', `/flame?${of('shop-api')}&from=now-20d&until=now-19d`, 'main'],
];

const [server, folder, ...parts] = process.argv.slice(2);
if (!server || !folder) {
  console.error('usage: node tests/shots.mjs SERVER-URL DIRECTORY [PART-OF-A-NAME...]');
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb'],
});
let missed = 0;
for (const theme of ['dark', 'light']) {
  for (const [width, height] of [[1400, 900], [390, 844]]) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce', hasTouch: width < 600 });
    const page = await context.newPage();
    for (const [name, path, ready] of PAGES.filter(([n]) => parts.length === 0 || parts.some((p) => n.includes(p)))) {
      const file = join(folder, `${name}-${theme}-${width}.png`);
      try {
        await page.goto(server.replace(/\/$/, '') + path);
        await page.locator(ready).first().waitFor({ timeout: 20_000 });
        await page.waitForFunction(() => !document.querySelector('main[aria-busy=true]'), null, { timeout: 20_000 });
      } catch (e) {
        missed++;
        console.error(`${file}: ${String(e).split('\n')[0]}`);
      }
      await page.evaluate(async () => {
        await document.fonts.ready;
        await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      });
      await page.screenshot({ path: file, fullPage: true });
    }
    await context.close();
  }
}
await browser.close();
process.exit(missed > 0 ? 1 : 0);
