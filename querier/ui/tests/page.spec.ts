// The built page in a browser, against tests/server.mjs or answers invented per test. Every test also fails on any
// console error, page error or violation of the content security policy, except what it expects.
import { expect, test, type Page } from '@playwright/test';
import { accessible, answerWith, canvas, CHECKOUT, click, CPU, graphOf, hover, parameter, watch } from './pages';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});
/** A refused call is a line on the console that no page can prevent. */
function expectRefusals(): void {
  expect(troubles.filter((t) => !t.startsWith('Failed to load resource'))).toEqual([]);
  troubles.length = 0;
}

/** total / main 100 % / work 60 %, <script> 30 %, and 10 % of main itself */
const SMALL: [string, number][] = [['main', 1e9], ['main;work', 6e9], ['main;<img src=x onerror=alert(1)>', 3e9]];

async function openSmall(page: Page, address = '/flame'): Promise<void> {
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill(graphOf(SMALL)));
  await page.goto(address);
  await expect(canvas(page)).toHaveAttribute('data-frames', '4');
}
test('opens on the first service that is not our own, with CPU time of the last hour', async ({ page }) => {
  const asked = page.waitForRequest('**/SelectMergeStacktraces');
  await page.goto('/flame');
  await expect(canvas(page)).toBeVisible();
  const sent = (await asked).postDataBuffer()!.toString('latin1');
  expect(sent).toContain(CPU);
  expect(sent).toContain('{service_name="checkout"}');
  expect((await asked).headers()['content-type']).toBe('application/proto');
  await expect(page).toHaveTitle('checkout · CPU time – Flametree');
  await expect(page.getByLabel('Service')).toHaveValue('checkout');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('CPU time');
  await expect(page.locator('.pill')).toHaveCount(0);
});

test('works under a path prefix', async ({ page }) => {
  await page.goto(`/behind/a/proxy/?query=${encodeURIComponent(CHECKOUT)}`);
  await expect(canvas(page)).toBeVisible();
});

test('the tooltip tells name, total, self, shares and the exact number; names are only ever text', async ({ page }) => {
  await openSmall(page);
  await hover(page, 0.5, 0);
  const tip = page.getByRole('tooltip');
  await expect(tip.locator('.function')).toHaveText('total');
  await hover(page, 0.2, 2);
  await expect(tip.locator('.function')).toHaveText('<img src=x onerror=alert(1)>');
  await hover(page, 0.7, 2);
  await expect(tip.locator('.function')).toHaveText('work');
  await expect(tip).toContainText(/Total6\.00 s60\.0 %60\.0 %Self6\.00 s60\.0 %Exact6\s000\s000\s000nanoseconds/);
  await hover(page, 0.05, 2);
  await expect(tip).toHaveCount(0);
  await expect(page.locator('.total')).toHaveText('10.0 s total');
  await expect(page.locator('.path')).toContainText('4 frames');
});

test('a click zooms, the way back is the path, the Back button or a second click', async ({ page }) => {
  await openSmall(page);
  const here = page.locator('.path .here');
  await click(page, 0.7, 2);
  await expect(here).toHaveText('work');
  await expect(page.locator('.figures')).toContainText('6.00 s 60.0 % of total');
  await expect.poll(() => parameter(page, 'zoom')).toMatch(/^[0-9a-z]{7}$/);
  const zoomed = parameter(page, 'zoom')!;
  await page.goBack();
  await expect(here).toHaveCount(0);
  await page.goForward();
  await expect(here).toHaveText('work');
  await page.locator('.path').getByRole('button', { name: 'main' }).click();
  await expect(here).toHaveText('main');
  await click(page, 0.5, 1);
  await expect(here).toHaveCount(0);
  await expect.poll(() => parameter(page, 'zoom')).toBeNull();
  await page.goto(`/flame?zoom=${zoomed}`);
  await expect(here).toHaveText('work');
  await page.getByRole('button', { name: 'Show all' }).click();
  await expect(here).toHaveCount(0);
  await page.goto('/flame?zoom=0000000');
  await expect(page.locator('.path')).toContainText('not in this profile');
});

test('the keyboard walks, zooms and resets, and says where it is', async ({ page }) => {
  await openSmall(page);
  await canvas(page).focus();
  const said = page.locator('.flame [aria-live=polite]');
  for (const [key, words] of [
    ['ArrowDown', /^total, total 10\.0 s/], ['ArrowDown', /^main, .* level 1, 2 callees$/], ['ArrowDown', /^work, total 6\.00 s, 60\.0 %, self 60\.0 %/],
    ['ArrowLeft', /^<img/], ['ArrowRight', /^work/], ['ArrowUp', /^main/], ['ArrowDown', /^work/],
  ] as const) {
    await page.keyboard.press(key);
    await expect(said).toHaveText(words);
  }
  await expect(page.getByRole('tooltip')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.locator('.path .here')).toHaveText('work');
  await page.keyboard.press('Escape');
  await expect(page.locator('.path .here')).toHaveCount(0);
});

test('service, type and range are in the address and Back undoes them', async ({ page }) => {
  await page.goto('/flame');
  await expect(canvas(page)).toBeVisible();
  await page.getByLabel('Service').selectOption('payments');
  await expect.poll(() => parameter(page, 'query')).toBe(`${CPU}{service_name="payments"}`);
  await page.getByLabel('Profile').selectOption({ label: 'Allocated space' });
  await expect.poll(() => parameter(page, 'query')).toMatch(/^memory:alloc_space/);
  await expect(page.locator('.total')).toContainText(/ [KMGT]iB total/);
  await page.getByRole('button', { name: 'Last hour' }).click();
  await page.getByRole('button', { name: 'Last 24 hours' }).click();
  await expect.poll(() => parameter(page, 'from')).toBe('now-24h');
  await page.goBack();
  await expect(page.getByRole('button', { name: 'Last hour' })).toBeVisible();
  await page.goBack();
  await page.goBack();
  await expect(page.getByLabel('Service')).toHaveValue('checkout');
  await expect.poll(() => new URL(page.url()).search).toBe('');
});

test('a fixed range is typed, checked and kept in ms; it does not refresh by itself', async ({ page }) => {
  await page.goto('/flame');
  await page.getByRole('button', { name: 'Last hour' }).click();
  const from = page.getByLabel('From'), until = page.getByLabel('Until');
  await from.fill('2026-11-20T10:00:00');
  await until.fill('2026-11-20T09:00:00');
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect(page.getByRole('alert')).toHaveText('The start has to be before the end.');
  await until.fill('2026-11-20T11:30:00');
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect.poll(() => [parameter(page, 'from'), parameter(page, 'until')]).toEqual(['1795168800000', '1795174200000']);
  await expect(page.getByRole('button', { name: '20 Nov 2026, 10:00:00 – 11:30:00' })).toBeFocused();
  await expect(page.getByLabel('Refresh automatically')).toBeDisabled();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

test('refreshes by hand and by itself, and keeps the zoom', async ({ page }) => {
  await page.clock.install();
  let asked = 0;
  const now = () => page.evaluate(() => Date.now());
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill(graphOf([...SMALL, ['main;work', ++asked * 1e9]])));
  await page.goto('/flame');
  await expect(page.locator('.total')).toContainText('11.0 s');
  await click(page, 0.7, 2);
  await expect(page.locator('.path .here')).toHaveText('work');
  await page.getByRole('button', { name: 'Refresh' }).click();
  await expect(page.locator('.total')).toContainText('12.0 s');
  const began = await now();
  await page.getByLabel('Refresh automatically').selectOption('10 s');
  await expect.poll(() => parameter(page, 'refresh')).toBe('10s');
  for (const wanted of [3, 4]) {
    // The wait starts when the page has drawn the answer before, so the clock may have to be pushed more than once.
    await expect(async () => {
      await page.clock.runFor(2500);
      expect(asked).toBeGreaterThanOrEqual(wanted);
    }).toPass({ intervals: [50] });
    // Time goes on: by now there may have been another.
    await expect.poll(async () => (await page.locator('.total').textContent()) === `${10 + asked}.0 s total`).toBe(true);
  }
  const again = asked - 2;
  expect(again * 10e3).toBeLessThanOrEqual((await now()) - began); // not again and again
  await expect(page.locator('.path .here')).toHaveText('work');
  await expect.poll(async () => (await page.locator('.figures').textContent())!.startsWith(`${6 + asked}.0`)).toBe(true);
});

test('filters of a link are shown, sent and can be removed', async ({ page }) => {
  const asked = page.waitForRequest('**/SelectMergeStacktraces');
  await openSmall(page, `/?query=${encodeURIComponent(`${CPU}{service_name="checkout",region="eu"}`)}`);
  expect((await asked).postDataBuffer()!.toString()).toContain('{service_name="checkout", region="eu"}');
  await page.getByRole('button', { name: 'Remove the filter region' }).click();
  await expect.poll(() => parameter(page, 'query')).toBe(CHECKOUT);
});

test('ranges go up to what the server keeps', async ({ page }) => {
  await openSmall(page, '/flame');
  let shown = 'Last hour';
  for (const [text, from] of [['Last 90 days', 'now-90d'], ['Last 400 days', 'now-400d']]) {
    await page.getByRole('button', { name: shown }).click();
    await page.getByRole('button', { name: text }).click();
    await expect.poll(() => parameter(page, 'from')).toBe(from);
    await expect(page.getByRole('button', { name: (shown = text) })).toBeVisible();
  }
});

test('exactness is shown as far as the server tells it', async ({ page }) => {
  const tell = async (headers: Record<string, string>, words: string | RegExp) => {
    await page.unrouteAll();
    await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill({ ...graphOf(SMALL), headers }));
    await page.goto('/flame');
    await expect(page.locator('.pill')).toHaveText(words);
  };
  await tell({ 'Flametree-Profiles': '1234567', 'Flametree-Exact': 'exact', 'Server-Timing': 'query;dur=41.4' }, 'exact · 1\u202f234\u202f567 profiles · 41 ms');
  await tell({ 'Flametree-Exact': 'rounded=300' }, 'edges rounded by up to 5.00 min');
  await expect(page.locator('.pill')).toHaveAttribute('title', /no longer kept/);
  await tell({ 'Flametree-Exact': 'partial=1 of 6 ingesters did not answer' }, 'incomplete: 1 of 6 ingesters did not answer');
  const blocks = 'v1/ab/t/raw/1, v1/ab/t/raw/2, and 3 more';
  await tell({ 'Flametree-Exact': `partial=${blocks} could not be read`, 'Flametree-Missing': blocks }, 'incomplete: 5 stored blocks could not be read');
  await expect(page.locator('.pill')).toHaveAttribute('title', blocks);
  const stream = 'stream 01J8ZQ2T5KDE8V6Z2Y1Q9RB7NH of ingester-2';
  await tell({ 'Flametree-Exact': `partial=${stream}`, 'Flametree-Missing': stream, 'Flametree-Missing-Since': '2026-07-01T10:20:30Z' }, /^incomplete: stream 01J8ZQ2T5KDE8V6Z2Y1Q9RB7NH of ingester-2, since \d\d:20:30$/);
  await expect(page.locator('.pill')).toHaveAttribute('title', /of ingester-2\nMissing since .*:20:30$/);
});

test('a failed query shows the words of the server, and trying again helps', async ({ page }) => {
  const message = 'the query time range exceeds the limit <b>(1d)</b>';
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill({ status: 400, json: { code: 'internal', message } }));
  await page.goto('/flame');
  await expect(page.getByRole('alert')).toContainText('The server failed');
  await expect(page.locator('.said')).toHaveText(message);
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(canvas(page)).toBeVisible();
  expectRefusals();
});

test('a failed refresh keeps the picture and says so; a busy server is asked once more', async ({ page }) => {
  await openSmall(page);
  await page.unrouteAll();
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.abort());
  await page.getByRole('button', { name: 'Refresh' }).click();
  await expect(page.getByRole('alert')).toContainText('The server is not available: The server did not answer.');
  await expect(canvas(page)).toHaveAttribute('data-frames', '4');
  await page.unrouteAll();
  let asked = 0;
  await answerWith(page, 'SelectMergeStacktraces', (r) => (asked++ === 0
    ? r.fulfill({ status: 429, headers: { 'Retry-After': '0' }, json: { code: 'resource_exhausted', message: 'later' } })
    : r.fulfill(graphOf([['a', 1e9]]))));
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(canvas(page)).toHaveAttribute('data-frames', '2');
  await expect(page.getByRole('alert')).toHaveCount(0);
  expectRefusals();
});

test('an answer that is not a flame graph is said to be unreadable', async ({ page }) => {
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill({ contentType: 'application/proto', body: Buffer.from('0aff', 'hex') }));
  await page.goto('/flame');
  await expect(page.getByRole('alert')).toContainText('The answer cannot be read');
  for (const address of ['/?query={a', '/flame?from=yesterday', '/flame?from=now&until=now-1h']) {
    await page.goto(address);
    await expect(page.getByRole('alert')).toContainText('in the address cannot be read');
  }
});

test('with no profile at all it tells how to push one, and starts when one arrives', async ({ page, baseURL }) => {
  await page.clock.install();
  await answerWith(page, 'Series', (r) => r.fulfill({ json: {} }));
  await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: {} }));
  await page.goto('/flame');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('No profiles yet');
  await expect(page.locator('pre').nth(1)).toContainText(`ServerAddress:   "${baseURL}"`);
  await page.unrouteAll();
  await expect(async () => {
    await page.clock.runFor(2500);
    await expect(canvas(page)).toBeVisible({ timeout: 100 });
  }).toPass({ intervals: [50] });
});

test('with nothing in the range it offers where something is', async ({ page }) => {
  await answerWith(page, 'SelectMergeStacktraces', (r) => {
    const filtered = r.request().postDataBuffer()!.includes('region');
    return r.fulfill(graphOf(filtered ? [] : SMALL));
  });
  await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: { dataIngested: true, newestProfileTime: '1795168800000' } }));
  await page.goto(`/flame?from=now-5m&query=${encodeURIComponent(`${CPU}{service_name="checkout",region="eu"}`)}`);
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('No CPU time profiles found');
  await page.getByRole('button', { name: 'Go to the latest profile' }).click();
  await expect(canvas(page)).toBeVisible();
  await expect.poll(() => [parameter(page, 'query'), parameter(page, 'until')]).toEqual([null, '1795168801000']);
  await page.goBack();
  await page.getByRole('button', { name: 'Remove the filter on region' }).click();
  await expect(canvas(page)).toBeVisible();
  await expect.poll(() => parameter(page, 'query')).toBe(CHECKOUT);
});

test('the theme follows the system until chosen', async ({ page }) => {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto('/flame');
  await expect.poll(background).toBe('rgb(245, 246, 248)');
  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(background).toBe('rgb(13, 16, 20)');
  await page.getByRole('button', { name: 'Switch to the light theme' }).click();
  await expect.poll(background).toBe('rgb(245, 246, 248)');
  await page.reload();
  await expect.poll(background).toBe('rgb(245, 246, 248)');
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`no fault of accessibility in the ${colorScheme} theme, nothing wider than a phone`, async ({ page }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.goto('/flame');
    await expect(canvas(page)).toBeVisible();
    await click(page, 0.5, 2);
    await page.getByRole('button', { name: 'Last hour' }).click();
    await hover(page, 0.5, 5);
    await accessible(page, 'profile');
    await page.setViewportSize({ width: 420, height: 860 });
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(420);
    await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill({ status: 503, json: { code: 'unavailable', message: 'no' } }));
    await page.goto('/?query=a:b{service_name="x",y="z"}');
    await expect(page.getByRole('alert')).toBeVisible();
    await accessible(page, 'failure');
    await answerWith(page, 'Series', (r) => r.fulfill({ json: {} }));
    await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: {} }));
    await page.goto('/flame');
    await expect(page.locator('pre').first()).toBeVisible();
    await accessible(page, 'nothing yet');
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(420);
    expectRefusals();
  });
}
