// How fast the page is, printed beside what it aims at. Only that it works is asserted: the machine may be busy.
import { expect, test } from '@playwright/test';
import { encodeLevels, encodeResponse, synthetic } from './profiles.mjs';
import { canvas, flame, watch } from './pages';

const AIMS: Record<number, string> = { 16000: '400 ms', 200000: '1000 ms' };
const ZOOM_LEVELS = [8, 0, 14, 3, 20, 0], ZOOM_WAIT_MS = 330;

interface Seen { draws: number[]; frames: number[]; firstAt: number }

/** Runs in the page before anything else: times what the flame graph's canvas draws. */
function watchDraws(): void {
  const seen: Seen = { draws: [], frames: [], firstAt: 0 };
  (globalThis as unknown as { seen: Seen }).seen = seen;
  const { setTransform } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.setTransform = function (this: CanvasRenderingContext2D, ...how: unknown[]) {
    if (this.canvas.getAttribute('role') === 'application') {
      const started = performance.now();
      queueMicrotask(() => { // when all of the picture is drawn
        seen.firstAt ||= performance.now();
        seen.draws.push(performance.now() - started);
      });
    }
    return Reflect.apply(setTransform, this, how);
  } as typeof setTransform;
}

const part = (list: number[], share: number): string => {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN).toFixed(1);
};

for (const wanted of [16000, 200000]) {
  test(`a flame graph of ${wanted} frames is drawn and zoomed`, async ({ page }) => {
    test.setTimeout(300_000);
    const troubles = watch(page), graph = encodeLevels(synthetic(Math.round(wanted / 3.55), 11)), body = encodeResponse(graph);
    await page.route('**/SelectMergeStacktraces', (r) => r.fulfill({ contentType: 'application/proto', body }));
    await page.addInitScript(watchDraws);
    await page.setViewportSize({ width: 1600, height: 1000 });
    await page.goto(flame());
    await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/, { timeout: 120_000 });
    const first = await page.evaluate(() => {
      const { seen } = globalThis as unknown as { seen: Seen }, paint = performance.getEntriesByName('first-contentful-paint')[0];
      return { paint: paint?.startTime ?? NaN, full: seen.draws[0], at: seen.firstAt };
    });
    const frames = Number(await canvas(page).getAttribute('data-drawn'));
    expect(frames).toBeGreaterThan(wanted / 2);
    const box = (await canvas(page).boundingBox())!;
    await page.evaluate(() => {
      const { seen } = globalThis as unknown as { seen: Seen };
      seen.draws.length = 0;
      let last = performance.now();
      const tick = (now: number) => {
        seen.frames.push(now - last);
        last = now;
        requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    });
    for (const level of ZOOM_LEVELS) {
      await page.mouse.click(box.x + box.width * 0.4, box.y + Math.min(level, 20) * 20 + 10);
      await page.waitForTimeout(ZOOM_WAIT_MS); // the picture moves for 220 ms
    }
    const seen = await page.evaluate(() => (globalThis as unknown as { seen: Seen }).seen);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('HeapProfiler.collectGarbage');
    const usage = (await cdp.send('Runtime.getHeapUsage')) as { usedSize: number; backingStorageSize?: number };
    const heap = (usage.usedSize + (usage.backingStorageSize ?? 0)) / 1e6; // columns lie beside the heap
    console.log([
      `${frames} frames, ${(body.length / 1e6).toFixed(1)} MB: first paint ${first.paint.toFixed(0)} ms, graph drawn at ${first.at.toFixed(0)} ms (aim ${AIMS[wanted]})`,
      `first draw ${first.full.toFixed(1)} ms`, `draws of zooms median ${part(seen.draws, 0.5)}, p95 ${part(seen.draws, 0.95)} ms (aim 8)`,
      `screen frames median ${part(seen.frames, 0.5)} ms, ${seen.frames.filter((f) => f > 20).length} of ${seen.frames.length} over 20 (aim 60 a second)`,
      `heap ${heap.toFixed(0)} MB (aim 40)`,
    ].join('; '));
    expect(troubles).toEqual([]);
  });
}
