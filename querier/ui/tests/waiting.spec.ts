// While an answer is slow: what is dimmed, what is said, and how it is stopped.
import { expect, test, type Page } from '@playwright/test';
import { accessible, answerWith, canvas, CHECKOUT, flame, graphOf, watch } from './pages';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

const box = (page: Page) => page.locator('.loading'), status = (page: Page) => box(page).getByRole('status');

/** Answers of a method wait for `release` from the second one on. */
async function holdLater(page: Page, method: string) {
  let asked = 0, release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route(`**/${method}`, async (r) => {
    if (asked++ > 0) await held;
    await r.continue().catch(() => undefined); // the page may have given up on it
  });
  return { asked: () => asked, release };
}

for (const [theme, width] of [['light', 1400], ['dark', 390]] as const) {
  test(`another service: the old picture is dimmed at once, and what loads is said (${theme}, ${width})`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 800 });
    const held = await holdLater(page, 'SelectMergeStacktraces'), line = await holdLater(page, 'SelectSeries');
    await page.goto(flame());
    await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
    await expect(box(page).getByRole('button')).toHaveCount(0);
    await page.evaluate(() => { // what is seen in the very change of the address
      const push = history.pushState.bind(history);
      history.pushState = (...how) => {
        push(...how);
        requestAnimationFrame(() => Object.assign(globalThis, { seen: [...document.querySelectorAll('.dimmed')].map((e) => e.className) }));
      };
    });
    await page.getByLabel('Service').selectOption('payments');
    await expect.poll(() => page.evaluate(() => (globalThis as unknown as { seen?: string[] }).seen)).toEqual(['card over dimmed', 'card work dimmed']);
    await expect(status(page)).toHaveText('Loading CPU time of payments, last hour …Still shown: CPU time of checkout, last hour');
    await expect(page.getByRole('main')).toHaveAttribute('aria-busy', 'true');
    await expect(box(page)).toContainText(/[1-9]\d* s/);
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    await accessible(page, 'waiting');
    await page.screenshot({ path: test.info().outputPath('waiting.png') });
    held.release();
    line.release();
    await expect(page.locator('.dimmed')).toHaveCount(0);
    await expect(box(page).getByRole('button')).toHaveCount(0);
    await expect(status(page)).toHaveText('');
    await expect(page.getByRole('main')).toHaveAttribute('aria-busy', 'false');
  });
}

test('Cancel ends the requests, keeps the old picture as such, and offers to load again', async ({ page }) => {
  const held = await holdLater(page, 'SelectMergeStacktraces'), line = await holdLater(page, 'SelectSeries');
  await page.goto(flame('&refresh=300s'));
  await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
  await page.getByRole('button', { name: 'Last hour' }).click();
  await page.getByRole('button', { name: 'Last 30 days' }).click();
  await expect(status(page)).toContainText('Loading CPU time of checkout, last 30 days …');
  await expect.poll(() => [held.asked(), line.asked()]).toEqual([2, 2]);
  const ended: string[] = [];
  page.on('requestfailed', (r) => ended.push(new URL(r.url()).pathname.split('/').pop()!));
  await box(page).getByRole('button', { name: 'Cancel' }).click();
  await expect.poll(() => ended.filter((name) => name.startsWith('Select')).sort()).toEqual(['SelectMergeStacktraces', 'SelectSeries']);
  await expect(status(page)).toHaveText('Cancelled: CPU time of checkout, last 30 daysStill shown: CPU time of checkout, last hour');
  await expect(page.locator('.card.work')).toHaveClass(/kept/);
  await expect(page.getByRole('progressbar')).toHaveCount(0);
  expect(new URL(page.url()).searchParams.get('refresh')).toBeNull();
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await accessible(page, 'cancelled');
  await page.screenshot({ path: test.info().outputPath('cancelled.png') });
  held.release();
  line.release();
  await box(page).getByRole('button', { name: 'Load again' }).click();
  await expect(page.locator('.kept, .dimmed')).toHaveCount(0);
  await expect(status(page)).toHaveText('');
});

test('a refresh of the same question dims nothing and says nothing', async ({ page }) => {
  const held = await holdLater(page, 'SelectMergeStacktraces');
  await page.goto(flame());
  await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
  await page.keyboard.press('r');
  await expect.poll(held.asked).toBe(2);
  await expect(page.getByRole('progressbar')).toHaveCount(1);
  await expect(page.locator('.dimmed')).toHaveCount(0);
  await expect(status(page)).toHaveText('');
  held.release();
  await expect(page.getByRole('progressbar')).toHaveCount(0);
});

test('the first answer can be cancelled too', async ({ page }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await answerWith(page, 'SelectMergeStacktraces', async (r) => {
    await held;
    await r.fulfill(graphOf([['main;work', 1e9]])).catch(() => undefined);
  });
  await page.goto(flame());
  await expect(status(page)).toHaveText('Loading CPU time of checkout, last hour …');
  await box(page).getByRole('button', { name: 'Cancel' }).click();
  await expect(status(page)).toHaveText('Cancelled: CPU time of checkout, last hour');
  release();
  await box(page).getByRole('button', { name: 'Load again' }).click();
  await expect(page.locator('.total')).toHaveText('1.00 s total');
});

for (const [path, method, said] of [['compare', 'Diff', 'the change of CPU time of payments'], ['explore', 'SelectSeries', 'CPU time of payments, last hour by pod']] as const) {
  test(`${path}: another service dims the old answer, and the wait can be cancelled`, async ({ page }) => {
    const held = await holdLater(page, method);
    await page.goto(`/${path}?query=${encodeURIComponent(CHECKOUT)}`);
    await expect(page.locator(path === 'compare' ? 'canvas[data-drawn]' : '.values td').first()).toBeVisible();
    await page.getByLabel('Service').selectOption('payments');
    await expect(status(page)).toContainText(`Loading ${said}`);
    await expect(page.locator('.dimmed').first()).toBeVisible();
    await box(page).getByRole('button', { name: 'Cancel' }).click();
    await expect(status(page)).toContainText(`Cancelled: ${said}`);
    await expect(page.locator('.kept').first()).toBeVisible();
    held.release();
    await box(page).getByRole('button', { name: 'Load again' }).click();
    await expect(page.locator('.dimmed, .kept')).toHaveCount(0);
  });
}
