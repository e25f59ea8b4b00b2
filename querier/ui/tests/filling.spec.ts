// Values over time on the page: buckets that are still filling, trends, small numbers.
import { expect, test, type Page, type Route } from '@playwright/test';
import { answerWith, CHECKOUT, flame, settled, watch } from './pages';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

const NOW = Date.UTC(2026, 10, 21, 8, 40), HOUR = 3600e3;
type Request = { start: number; end: number; step: number; groupBy?: string[] };

/** What SelectSeries answers, for the value of each bucket by its right edge; null for none. */
async function answerSeries(page: Page, of: Record<string, (right: number, stepMs: number) => number | null>) {
  await answerWith(page, 'SelectSeries', (r: Route) => {
    const { start, end, step, groupBy = [] } = r.request().postDataJSON() as Request, edges: number[] = [];
    for (let t = start; t <= end; t += step * 1e3) edges.push(t);
    const series = Object.entries(of).map(([value, v]) => ({
      labels: groupBy.length > 0 ? [{ name: groupBy[0], value }] : [],
      points: edges.flatMap((t) => (v(t, step * 1e3) === null ? [] : [{ timestamp: String(t), value: v(t, step * 1e3) }])),
    }));
    return r.fulfill({ json: { series } });
  });
}
/** One core in use in a part of the time. */
const core = (from: number, until = NOW) => (right: number, step: number) => {
  const time = Math.min(right, until) - Math.max(right - step, from);
  return time > 0 ? time * 1e6 : null;
};

test('a month shows the last hours: the bucket that is not over, dashed, and said to be still filling', async ({ page }) => {
  await page.clock.setFixedTime(NOW);
  await answerSeries(page, { checkout: core(NOW - 0.6 * HOUR), payments: core(NOW - 100 * HOUR) });
  await page.goto(flame('&from=now-30d'));
  const plot = page.locator('.plot .canvas');
  await expect(plot).toHaveAttribute('data-filling', '360');
  await settled(page);
  const box = (await page.locator('.u-over').boundingBox())!;
  await page.mouse.move(box.x + box.width - 1, box.y + 30);
  await expect(page.locator('.reading')).toContainText('0.90 cores');
  await expect(page.locator('.reading')).toContainText('still filling, so far');
  await page.mouse.move(box.x + box.width * 0.5, box.y + 30);
  await expect(page.locator('.reading')).not.toContainText('still filling');
  await page.goto('/?from=now-30d');
  const card = page.locator('.service', { hasText: 'checkout' });
  await expect(card).toContainText('833 µcores'); // 36 minutes of 30 days
  await expect(card.locator('.filling')).toHaveCount(1);
  await expect(card).not.toContainText('%');
  await page.goto('/?from=1793000000&until=1794000000');
  await expect(page.locator('.filling')).toHaveCount(0);
});

test('what began or ended within the range is new or gone, on cards and for values of a label', async ({ page }) => {
  await page.clock.setFixedTime(NOW);
  await answerSeries(page, { checkout: core(NOW - 0.4 * HOUR), payments: core(NOW - 2 * HOUR, NOW - 0.5 * HOUR), flametree: core(NOW - 2 * HOUR) });
  await page.goto('/');
  const trend = (service: string) => page.locator('.service', { hasText: service }).locator('[title]').last();
  await expect(trend('checkout')).toHaveText('new');
  await expect(trend('payments')).toHaveText('gone');
  await expect(trend('payments')).toHaveAttribute('title', 'Ended within the range');
  await expect(trend('flametree')).toHaveText(/^▲ 0 %$/);
  await expect(trend('flametree')).toHaveAttribute('title', 'Second half of the range against the first');
  await page.goto(`/explore?query=${encodeURIComponent(CHECKOUT)}`);
  await expect(page.locator('.values tbody tr').nth(0)).toContainText('new');
  await expect(page.locator('.values tbody tr').nth(1)).toContainText('gone');
  await expect(page.locator('.values tbody tr').nth(2)).toContainText('+0 %');
});

test('small rates have prefixes, on cards and on axes', async ({ page }) => {
  await page.clock.setFixedTime(NOW);
  await answerSeries(page, { checkout: (_, step) => step * 5.6 });
  await page.goto('/');
  await expect(page.locator('.service', { hasText: 'checkout' })).toContainText('5.60 µcores');
});

test('a heap that was pushed once is seen, on its card too', async ({ page }) => {
  await page.clock.setFixedTime(NOW);
  await answerSeries(page, { checkout: (right, step) => (right >= NOW && right - step < NOW ? 4096 : null) });
  await page.goto(`/types?from=now-30d&query=${encodeURIComponent(CHECKOUT)}`);
  const card = page.locator('.service', { hasText: 'In-use space' });
  await expect(card).toContainText('4.00 KiB, mean per profile');
  const line = (await card.locator('.filling').boundingBox())!, svg = (await card.locator('svg').boundingBox())!;
  expect(line.width).toBeGreaterThan(4);
  expect(line.x).toBeLessThan(svg.x + svg.width - 4);
});
