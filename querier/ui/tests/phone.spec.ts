// The page on a phone: nothing is cut off, everything is in reach, and a finger that stays on a frame opens its menu.
import { expect, test } from '@playwright/test';
import { accessible, answerWith, canvas, CHECKOUT, flame, graphOf, parameter, settled, spot, watch } from './pages';

test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

const QUERY = `?query=${encodeURIComponent(CHECKOUT)}`;

for (const colorScheme of ['light', 'dark'] as const) {
  test(`all pages fit in the ${colorScheme} theme: no tab is clipped, no control lies outside`, async ({ page }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const path of ['/', `/types${QUERY}`, `/flame${QUERY}`, `/labels${QUERY}`, `/labels${QUERY}&measure=hist`, `/compare${QUERY}`]) {
      await page.goto(path);
      await expect(page.locator('main .card').first()).toBeVisible();
      await settled(page);
      const outside = await page.evaluate(() => [...document.querySelectorAll('.views a, button, select, input, .values th, .values td')].flatMap((e) => {
        const { left, right, width } = e.getBoundingClientRect();
        return width > 1 && (left < -0.5 || right > innerWidth + 0.5) ? [`${e.textContent} ${left} ${right}`] : [];
      }));
      expect(outside, path).toEqual([]);
      const cut = await page.evaluate(() => [...document.querySelectorAll('.segments button, .views a')]
        .flatMap((e) => (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1 ? [e.textContent] : [])));
      expect(cut, path).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), path).toBe(390);
      await accessible(page, path);
    }
  });
}

test('two values of a label are chosen with a finger and compared', async ({ page }) => {
  await page.goto(`/labels${QUERY}&groupBy=region`);
  await page.getByRole('button', { name: 'Base: eu' }).tap();
  await page.getByRole('button', { name: 'Comp.: us' }).tap();
  await page.getByRole('link', { name: 'Compare eu → us' }).tap();
  await expect.poll(() => new URL(page.url()).pathname).toBe('/compare');
  expect(parameter(page, 'rightQuery')).toContain('region="us"');
});

test('a long press on a frame opens its menu, in the graph and in the sandwich; a tap and a swipe do not', async ({ page }) => {
  await page.clock.install();
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill(graphOf([['main;work', 6e9], ['main;rest', 4e9]])));
  const cdp = await page.context().newCDPSession(page), menu = page.getByRole('menu');
  const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', at?: { x: number; y: number }) =>
    cdp.send('Input.dispatchTouchEvent', { type, touchPoints: at ? [at] : [] });
  await page.goto(flame('&show=flame'));
  await canvas(page).scrollIntoViewIfNeeded();
  await expect(page.locator('.path')).toContainText('Tap a frame to zoom in, hold it for more.');
  let at = await spot(page, 0.7, 2);
  await touch('touchStart', at);
  await page.clock.runFor(600);
  await expect(menu).toHaveAttribute('aria-label', 'work');
  await touch('touchEnd');
  await expect(menu).toBeVisible();
  expect(parameter(page, 'zoom')).toBeNull();
  await page.goto(flame('&show=sandwich&fn=work'));
  await expect(page.locator('.halves')).toBeVisible();
  const half = page.locator('[data-half=callers]').getByRole('application');
  await half.scrollIntoViewIfNeeded();
  await expect(half).toHaveAttribute('data-drawn', /\d/);
  const box = (await half.boundingBox())!;
  at = { x: box.x + box.width / 2, y: box.y + box.height - 10 };
  await touch('touchStart', at);
  await page.clock.runFor(600);
  await expect(menu).toHaveAttribute('aria-label', 'main');
  await touch('touchEnd');
  await page.goto(flame('&show=flame'));
  await canvas(page).scrollIntoViewIfNeeded();
  at = await spot(page, 0.7, 2);
  await touch('touchStart', at);
  await touch('touchMove', { x: at.x - 30, y: at.y });
  await page.clock.runFor(600);
  await touch('touchEnd');
  await expect(menu).toHaveCount(0);
  await page.touchscreen.tap(at.x, at.y);
  await page.clock.runFor(600);
  await expect.poll(() => parameter(page, 'zoom')).toMatch(/^[0-9a-z]{7}$/);
  await expect(menu).toHaveCount(0);
});
